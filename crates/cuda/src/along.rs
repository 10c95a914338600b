//! What cuBLASLt computes along with a product.

use cudarc::cublaslt::sys;

/// What is computed along with a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// Nothing.
    Nothing,
    /// A row is added to each row.
    Bias,
    /// That, and gelu of the sum, which is kept.
    Gelu,
    /// The sum's positive part.
    Relu,
    /// That, and a bit for each element that says where it is.
    ReluBits,
    /// The product is a gradient behind gelu: times its slope, of what was kept; and the sums of columns.
    GeluSlope,
    /// The same behind a positive part, by the bits.
    ReluSlope,
    /// The sums of the first operand's rows.
    Sums,
    /// It is multiplied by a scale for each operand, of which the second is given transposed.
    Scales,
}

impl Along {
    /// What the op of this name with so many results computes along with its product; `None` if it is none.
    pub fn of(name: &str, outs: usize) -> Option<Along> {
        Some(match name {
            "matmul" => Along::Nothing,
            "matmul_bias" => Along::Bias,
            "matmul_gelu" => Along::Gelu,
            "matmul_relu" if outs == 1 => Along::Relu,
            "matmul_relu" => Along::ReluBits,
            "matmul_gelu_slope" => Along::GeluSlope,
            "matmul_relu_slope" => Along::ReluSlope,
            "matmul_sums" => Along::Sums,
            "scaled_product" => Along::Scales,
            _ => return None,
        })
    }
    /// The library's name for it.
    pub fn epilogue(self) -> sys::cublasLtEpilogue_t {
        use sys::cublasLtEpilogue_t as E;
        match self {
            Along::Nothing | Along::Scales => E::CUBLASLT_EPILOGUE_DEFAULT,
            Along::Bias => E::CUBLASLT_EPILOGUE_BIAS,
            Along::Gelu => E::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
            Along::Relu => E::CUBLASLT_EPILOGUE_RELU_BIAS,
            Along::ReluBits => E::CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
            Along::GeluSlope => E::CUBLASLT_EPILOGUE_DGELU_BGRAD,
            Along::ReluSlope => E::CUBLASLT_EPILOGUE_DRELU_BGRAD,
            // The library's second operand is the first here.
            Along::Sums => E::CUBLASLT_EPILOGUE_BGRADB,
        }
    }
    /// A row is read, or sums are written.
    pub fn has_bias(self) -> bool {
        !matches!(self, Along::Nothing | Along::Scales)
    }
    /// What an activation was taken of, or its bits, is written or read.
    pub fn has_inner(self) -> bool {
        matches!(self, Along::Gelu | Along::ReluBits | Along::GeluSlope | Along::ReluSlope)
    }
    /// It is read, and what is beside it written.
    pub fn is_slope(self) -> bool {
        matches!(self, Along::GeluSlope | Along::ReluSlope)
    }
    /// Elements (or bits) from one row of that to the next, for rows of `n`.
    pub fn inner_row(self, n: usize) -> usize {
        if matches!(self, Along::ReluBits | Along::ReluSlope) { bits(n) } else { n }
    }
    /// What a product can do along, without what a loop could do behind it, and how many times that loop would
    /// go over the result.
    pub fn simpler(self) -> (Along, usize) {
        match self {
            Along::Gelu | Along::Relu | Along::ReluBits => (Along::Bias, 2),
            Along::GeluSlope | Along::ReluSlope => (Along::Nothing, 3),
            Along::Nothing | Along::Bias | Along::Sums | Along::Scales => (Along::Nothing, 1),
        }
    }
}

/// Bits of a row of `n` elements, as the library aligns them.
pub fn bits(n: usize) -> usize {
    n.next_multiple_of(128)
}
