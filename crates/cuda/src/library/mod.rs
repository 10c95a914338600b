//! NVIDIA's libraries for GEMM, Fourier transforms and collectives. cuDNN has a folder of its own, [`crate::dnn`].

pub mod cublas;
pub mod cudnn;
pub mod cufft;
pub mod epilogue;
pub mod nccl;
