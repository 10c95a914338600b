"""Other spellings of ops: the array API standard's, NumPy's and PyTorch's, where the table has another.

Each is the same function under another name, in the package and as a method of ``Tensor``.
"""

ALIASES = {
    # The array API standard and NumPy.
    "bitwise_invert": "bitwise_not",
    "divide": "div",
    "equal": "eq",
    "greater": "gt",
    "greater_equal": "ge",
    "isfinite": "is_finite",
    "isinf": "is_inf",
    "isnan": "is_nan",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "reciprocal": "recip",
    "remainder": "rem",
    "subtract": "sub",
    "true_divide": "div",
    "concatenate": "concat",
    "expand_dims": "unsqueeze",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    # PyTorch.
    "cat": "concat",
    "swapdims": "swapaxes",
    "movedim": "moveaxis",
    "topk": "top_k",
    "logsigmoid": "log_sigmoid",
    "absolute": "abs",
    "scaled_dot_product_attention": "attention",
}
