//! NVIDIA's libraries for GEMM and collectives. cuDNN has a folder of its own, [`crate::dnn`].

pub mod cublas;
pub mod epilogue;
pub mod nccl;
