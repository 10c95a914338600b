//! Epilogues that cuBLASLt fuses into a GEMM.

use crate::claims::op;
use crate::rewrite::rows;
use cudarc::cublaslt::sys;

/// The epilogue of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epilogue {
    /// None.
    None,
    /// Adds a bias to each row.
    Bias,
    /// Bias and gelu; the input of gelu is kept as an auxiliary output.
    GeluAux,
    /// Bias and relu.
    Relu,
    /// Bias and relu, with a bit mask of the positive elements as an auxiliary output.
    ReluMask,
    /// Backward of gelu: multiplies by its derivative at the auxiliary input, and sums columns (the bias gradient).
    DGelu,
    /// Backward of relu, by its bit mask, with the bias gradient.
    DRelu,
    /// The bias gradient: sums of the first operand's rows.
    BiasGrad,
    /// fp8: one scale for each operand; the second operand is transposed.
    Scales,
}

impl Epilogue {
    /// The epilogue of the op with this name and number of results; `None` if the op is not a GEMM.
    pub fn of(name: &str, outs: usize) -> Option<Epilogue> {
        if name == op::MATMUL {
            return Some(Epilogue::None);
        }
        let rows = [
            (&rows::MATMUL_BIAS, Epilogue::Bias),
            (&rows::MATMUL_GELU, Epilogue::GeluAux),
            (&rows::MATMUL_RELU, if outs == 1 { Epilogue::Relu } else { Epilogue::ReluMask }),
            (&rows::MATMUL_DGELU, Epilogue::DGelu),
            (&rows::MATMUL_DRELU, Epilogue::DRelu),
            (&rows::MATMUL_SUMS, Epilogue::BiasGrad),
            (&rows::SCALED_GEMM, Epilogue::Scales),
        ];
        rows.iter().find(|(row, _)| row.name == name).map(|(_, epilogue)| *epilogue)
    }
    /// Its cuBLASLt constant.
    pub fn cublas(self) -> sys::cublasLtEpilogue_t {
        use sys::cublasLtEpilogue_t as E;
        match self {
            Epilogue::None | Epilogue::Scales => E::CUBLASLT_EPILOGUE_DEFAULT,
            Epilogue::Bias => E::CUBLASLT_EPILOGUE_BIAS,
            Epilogue::GeluAux => E::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
            Epilogue::Relu => E::CUBLASLT_EPILOGUE_RELU_BIAS,
            Epilogue::ReluMask => E::CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
            Epilogue::DGelu => E::CUBLASLT_EPILOGUE_DGELU_BGRAD,
            Epilogue::DRelu => E::CUBLASLT_EPILOGUE_DRELU_BGRAD,
            // The library's second operand is the first here.
            Epilogue::BiasGrad => E::CUBLASLT_EPILOGUE_BGRADB,
        }
    }
    /// It reads a bias, or writes the bias gradient.
    pub fn has_bias(self) -> bool {
        !matches!(self, Epilogue::None | Epilogue::Scales)
    }
    /// It writes or reads an auxiliary tensor.
    pub fn has_aux(self) -> bool {
        matches!(self, Epilogue::GeluAux | Epilogue::ReluMask | Epilogue::DGelu | Epilogue::DRelu)
    }
    /// Backward epilogue: the auxiliary tensor is an input and the bias gradient an output.
    pub fn is_backward(self) -> bool {
        matches!(self, Epilogue::DGelu | Epilogue::DRelu)
    }
    /// Leading dimension of the auxiliary tensor in elements (or bits), for rows of `n`.
    pub fn aux_row(self, n: usize) -> usize {
        if matches!(self, Epilogue::ReluMask | Epilogue::DRelu) { bits(n) } else { n }
    }
    /// The simpler epilogue to use with a loop after the GEMM instead, and how often that loop passes over the result.
    pub fn simpler(self) -> (Epilogue, usize) {
        match self {
            Epilogue::GeluAux | Epilogue::Relu | Epilogue::ReluMask => (Epilogue::Bias, 2),
            Epilogue::DGelu | Epilogue::DRelu => (Epilogue::None, 3),
            Epilogue::None | Epilogue::Bias | Epilogue::BiasGrad | Epilogue::Scales => (Epilogue::None, 1),
        }
    }
}

/// Bits of a row of `n` elements in a relu mask, as cuBLASLt aligns them.
pub fn bits(n: usize) -> usize {
    n.next_multiple_of(128)
}
