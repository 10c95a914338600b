"""What happens to the graph of forward and backward before it is split."""

# mypy: ignore-errors
import operator

import torch
from torch._decomp import core_aten_decompositions
from torch._functorch.partitioners import min_cut_rematerialization_partition

aten = torch.ops.aten

# Operators that stay whole, as an op here does the same.
_WHOLE = """embedding_dense_backward gelu_backward native_layer_norm_backward _softmax_backward_data
    _log_softmax_backward_data _scaled_dot_product_flash_attention_for_cpu native_batch_norm_backward avg_pool2d_backward
    upsample_nearest2d_backward select_scatter floor_divide _unsafe_index _unsafe_index_put fill""".split()


def decompositions():
    """PyTorch's ways to core ATen operators, without those of operators that have their own row."""
    whole = set(_WHOLE)
    table = core_aten_decompositions()
    return {op: f for op, f in table.items() if op._schema.name.rpartition("::")[2] not in whole}


def _from_input(graph):
    """Gradients of layer norm are computed from its input alone: statistics need not be kept for them."""
    for node in graph.find_nodes(op="call_function", target=aten.native_layer_norm_backward.default):
        rstd = node.args[4]
        if not (isinstance(rstd, torch.fx.Node) and rstd.target is operator.getitem):
            continue
        forward = rstd.args[0]
        if forward.target is not aten.native_layer_norm.default or node.args[5] is None or len(node.args[2]) >= node.args[1].meta["val"].ndim:
            continue
        node.meta["eps"] = forward.args[4]
        node.args = (*node.args[:3], None, None, *node.args[5:])


def partition(module, inputs, **settings):
    """Splits the joint graph into forward and backward, with little kept between them."""
    _from_input(module.graph)
    module.recompile()
    return min_cut_rematerialization_partition(module, inputs, **settings)
