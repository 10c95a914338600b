"""Writes the type stubs of the package's submodules from the package itself: names, defaults and documentation come
from the live functions and classes, types from the tables below. The stubs of the package itself come from the op
table (`crates/py/generate`).

`TALWEG_BLESS=1 pytest python/tests/test_stubs.py` writes them; the same test fails while they differ, or while a
parameter has no type.
"""

import importlib
import inspect
import textwrap
import types
from pathlib import Path

import talweg as tw

ROOT = Path(__file__).parent / "talweg"
MODULES = [
    "_devices",
    "_graph",
    "_state",
    "errors",
    "metrics",
    "nn",
    "nn.functional",
    "nn.init",
    "nn.utils",
    "nn.utils.fusion",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.rnn",
    "nn.utils.stateless",
    "optim",
    "optim.lr_scheduler",
    "optim.swa_utils",
    "train",
    "utils",
]

# Types of parameters by their name; `owner.name` where the name alone does not tell.
INTS = """in_features out_features num_embeddings embedding_dim in_channels out_channels groups num_groups num_channels
num_features input_size hidden_size num_layers embed_dim num_heads d_model nhead dim_feedforward heads start_dim
end_dim upscale_factor downscale_factor step_size total_steps T_max steps_ patience cooldown batch_size n length lower
upper max_trips keep_last keep_best evaluate_every save_every k max_iter history_size count seed start step tokens
class_ blank max_value number growth_interval index diagonal classes num_classes in1_features in2_features kdim vdim
embed_dim_to_check num_encoder_layers num_decoder_layers num_parameters proj_size n_power_iterations stacklevel sz
divisor_override total_length T_0 T_mult last_epoch ns_steps step_size_up total_iters"""
FLOATS = """p eps momentum alpha lr lr_lambda_ gamma eta_min max_lr pct_start div_factor final_div_factor start_lr factor
threshold min_lr negative_slope beta lambd min_val max_val margin delta label_smoothing gain std mean a b val max_norm
clip_value d value low high minval maxval stddev weight_decay learning_rate beta1 beta2 epsilon tolerance_grad
tolerance_change dropout dropout_p bound figure init_scale layer_norm_eps norm_type sparsity tau scale_factor_
padding_value beta2_decay dampening lr_decay momentum_decay power start_factor end_factor t0 best"""
BOOLS = """bias ceil_mode count_include_pad batch_first bidirectional norm_first concat affine strict training mode
requires_grad set_to_none has_aux reverse upper_ keepdims keepdim descending stable include_initial shuffle drop_last
maximize jit is_causal enable_gqa tgt_is_causal trainable persistent log_target log_input full swap return_inverse return_counts
endpoint train nesterov centered yes enabled full_matrices zero_infinity add_bias_kv add_zero_attn align_corners
always_call antialias assign average_attn_weights elementwise_affine enable_nested_tensor error_if_nonfinite foreach
freeze hard include_last_offset inplace keep_vars leave_parametrized mask_check memory_is_causal need_weights prepend
recompute_scale_factor remove_duplicate return_indices scale_grad_by_freq sparse src_is_causal track_running_stats
amsgrad capturable cycle_momentum decoupled_weight_decay differentiable fused three_phase use_buffers
unsafe use_input_stats use_separate_proj_weight use_trivialization with_kwargs enforce_sorted"""
SHAPES = "kernel_size stride padding dilation output_padding output_size normalized_shape shape widths"
TENSORS = """x x1 x2 query key value_ src tgt memory tensor edges input weight loss condition variable tensors_ pred
other logits target scores targets log_probs predicted operands_ init_ gradient_ anchor positive negative grid input1
input2 theta in_proj_weight out_proj_weight vec total_norm conv_w linear_w bn_rm bn_rv"""
STRINGS = """activation reduction name prefix indexing side norm_ equation average path_ line_search_fn watch kind_ UPLO
approximate nonlinearity padding_mode padding_side tensor_name adjust_lr_fn anneal_strategy scale_mode threshold_mode"""
TYPES = {
    **dict.fromkeys(INTS.split(), "int"),
    **dict.fromkeys(FLOATS.split(), "float"),
    **dict.fromkeys(BOOLS.split(), "bool"),
    **dict.fromkeys(SHAPES.split(), "int | Sequence[int]"),
    **dict.fromkeys(TENSORS.split(), "Tensor"),
    **dict.fromkeys(STRINGS.split(), "str"),
    "activation": "str | Callable[[Tensor], Tensor]",
    **dict.fromkeys("avg_fn multi_avg_fn".split(), "Callable[..., Any] | None"),
    **dict.fromkeys("base_lr max_lr min_lr swa_lr base_momentum max_momentum".split(), "float | Sequence[float]"),
    "anneal_epochs": "int",
    "bn": "Module",
    "bn_eps": "float",
    "conv": "Module",
    "inputs": "Any",
    "transpose": "bool",
    "fuse_linear_bn_eval.linear": "Module",
    "cutoffs": "Sequence[int]",
    "device_ids": "Any",
    "div_value": "float",
    "head_bias": "bool",
    "module_cls": "type",
    "n_classes": "int",
    "output_device": "Any",
    "models": "Sequence[Module]",
    "parameters_and_buffers": "Any",
    "tie_weights": "bool",
    "epoch": "int | None",
    "etas": "tuple[float, float]",
    "step_sizes": "tuple[float, float]",
    "ns_coefficients": "tuple[float, float, float]",
    "milestones": "Iterable[int]",
    "param_group": "dict[str, Any]",
    "params": "Iterable[Any]",
    "scale_fn": "Callable[[float], float] | None",
    "schedulers": "Sequence[Any]",
    "step_size_down": "int | None",
    "steps_per_epoch": "int | None",
    "OneCycleLR.__init__.total_steps": "int | None",
    "CyclicLR.__init__.mode": "str",
    "Adafactor.__init__.eps": "tuple[float | None, float]",
    "LambdaLR.__init__.lr_lambda": "Callable[[int], float] | Sequence[Callable[[int], float]]",
    "MultiplicativeLR.__init__.lr_lambda": "Callable[[int], float] | Sequence[Callable[[int], float]]",
    **dict.fromkeys(
        """bias_k bias_v in_proj_bias out_proj_bias k_proj_weight q_proj_weight v_proj_weight key_padding_mask src_mask
        src_key_padding_mask tgt_key_padding_mask memory_key_padding_mask offsets per_sample_weights running_mean
        running_var static_k static_v conv_b linear_b bn_w bn_b""".split(),
        "Tensor | None",
    ),
    **dict.fromkeys("size_average reduce generator default destination hx process_group scale_factor sequences".split(), "Any"),
    "output_ratio": "float | Sequence[float] | None",
    "random_samples": "Tensor | None",
    "linear_weight": "Tensor",
    "linear_bias": "Tensor | None",
    "options": "Any",
    "custom_decoder": "Module | None",
    "custom_encoder": "Module | None",
    "distance_function": "Callable[[Tensor, Tensor], Tensor] | None",
    "dst_type": "DTypeLike",
    "fn": "Callable[..., Any]",
    "hook": "Callable[..., Any]",
    "key": "Any",
    "orthogonal_map": "str | None",
    "original": "Tensor",
    "packed_sequences": "PackedSequence",
    "sequence": "PackedSequence",
    "padded_sequences": "Tensor",
    "pad": "Sequence[int]",
    "parametrization": "Module",
    "state_dict": "Mapping[str, Any]",
    "unflattened_size": "Sequence[int]",
    "var": "Any",
    "embeddings": "Tensor",
    "where": "Any",
    "argnums": "int | Sequence[int]",
    "array": "Any",
    "arrays": "Sequence[Tensor]",
    "arrays_and_dtypes": "Any",
    "args": "Any",
    "assignments": "Sequence[tuple[Tensor, Any]]",
    "attn_mask": "Tensor | None",
    **dict.fromkeys("query_lengths key_lengths src_lengths tgt_lengths memory_lengths".split(), "Tensor | None"),
    "axes": "Sequence[int] | None",
    "axis": "int | None",
    "batch": "Any",
    "betas": "tuple[float, float]",
    "body": "Callable[..., Any]",
    "callbacks": "Sequence[Callback]",
    "checkpoints": "str | PathLike[str] | None",
    "clip_norm": "float | None",
    "clip_value": "float | None",
    "closure": "Callable[[], Any] | None",
    "collate_fn": "Callable[[list[Any]], Any] | None",
    "cond": "Callable[..., Any]",
    "copy": "bool | None",
    "data": "Any",
    "dataset": "Any",
    "defaults": "Any",
    "device": "str | None",
    "dim": "int | None",
    "dtype": "DTypeLike | None",
    "epochs": "int | None",
    "evaluate": "Callable[[], Mapping[str, Any]] | None",
    "events": "str | PathLike[str] | None",
    "examples": "Sequence[Any]",
    "exception": "Any",
    "f": "Callable[..., Any]",
    "feed_dict": "Mapping[Tensor, Any] | None",
    "fetches": "Any",
    "figures": "dict[str, float]",
    "folder": "str | PathLike[str] | None",
    "from_": "Any",
    "give": "Callable[[], bytes]",
    "group": "dict[str, Any]",
    "in_axes": "int | Sequence[int | None] | None",
    "indices": "Sequence[int]",
    "init": "Any",
    "initial_value": "Any",
    "journal": "str | PathLike[str] | None",
    "kind": "Any",
    "kwargs": "Any",
    "input_lengths": "Any",
    "lengths": "Any",
    "linear": "Linear",
    "loader": "Iterable[Any]",
    "loop_vars": "Sequence[Any]",
    "lr": "float",
    "lr_lambda": "Callable[[int], float]",
    "max": "Any",
    "max_eval": "int | None",
    "maximum_iterations": "int | None",
    "memo": "set[int] | None",
    "memory_mask": "Tensor | None",
    "mask": "Tensor | None",
    "metrics": "Any",
    "min": "Any",
    "model": "Module",
    "module": "Module",
    "modules": "Any",
    "norm": "Any",
    "on": "bool",
    "operands": "Any",
    "optimizer": "Any",
    "ord": "Any",
    "otherwise": "Callable[..., Any]",
    "out": "IO[str] | None",
    "out_axes": "int",
    "padding": "int | str | Sequence[int]",
    "padding_idx": "int | None",
    "param": "Tensor",
    "parameter": "Tensor",
    "parameters": "Iterable[Tensor]",
    "params": "Iterable[Any]",
    "path": "str | PathLike[str]",
    "pos_weight": "Tensor | None",
    "primals": "Sequence[Any]",
    "progress": "bool | Silent",
    "recurse": "bool",
    "repeats": "int | Tensor",
    "rtol": "float | None",
    "rule": "Callable[[list[Tensor], list[Tensor], list[Tensor]], Sequence[Tensor]] | None",
    "s": "Sequence[int] | None",
    "scale": "float | None",
    "schedule": "Any",
    "series": "Mapping[str, Sequence[tuple[float, float]]]",
    "settings": "Any",
    "shapes": "Sequence[int]",
    "shift": "int | Sequence[int]",
    "sorter": "Tensor | None",
    "state": "Any",
    "steps": "int | None",
    "stride": "int | Sequence[int] | None",
    "style": "Any",
    "tangents": "Sequence[Any]",
    "target_lengths": "Any",
    "tensors": "Any",
    "test": "Callable[..., Any]",
    "text": "str",
    "tgt_mask": "Tensor | None",
    "then": "Any",
    "to": "DTypeLike",
    "trainer": "Trainer",
    "type": "Any",
    "updates": "Any",
    "use_nesterov": "bool",
    "value": "Any",
    "var_list": "Sequence[Tensor] | None",
    "weight": "Tensor | None",
    "decoder_layer": "TransformerDecoderLayer",
    "encoder_layer": "TransformerEncoderLayer",
    "split_size_or_sections": "int | Sequence[int]",
    "isclose.rtol": "float",
    "allclose.rtol": "float",
    "atol": "float",
    "equal_nan": "bool",
    "size": "int | Sequence[int]",
    "isclose.x": "Any",
    "isclose.other": "Any",
    "allclose.x": "Any",
    "allclose.other": "Any",
    "normal.mean": "Any",
    "is_tensor.x": "Any",
    "_habits.bernoulli.p": "Tensor",
    "num_workers": "int",
    "tril.k": "int | None",
    "triu.k": "int | None",
    "xs": "Any",
    "index": "Any",
    "initial_accumulator_value": "float",
    "decay": "float",
    "rho": "float",
    "ignore_index": "int",
    # Where the name alone does not tell.
    "Bernoulli.p": "Any",
    "bernoulli.p": "Any",
    "bernoulli.shape": "int | Sequence[int] | None",
    "Callback.on_step.loss": "float",
    "Silent.step.loss": "float",
    "Progress.step.loss": "float",
    "Trainer.fit.loss": "Callable[..., Tensor]",
    "Trainer.__init__.patience": "int | None",
    "Trainer.__init__.watch": "str | None",
    "Confusion.__init__.classes": "int",
    "constant.shape": "int | Sequence[int] | None",
    "Embedding.__init__.padding_idx": "int | None",
    "einsum.operands": "Any",
    "embedding.weight": "Tensor",
    "finfo.type": "Any",
    "full.shape": "int | Sequence[int]",
    "GAT.__init__.concat": "bool",
    "hfft.n": "int | None",
    "ihfft.n": "int | None",
    "fft.n": "int | None",
    "ifft.n": "int | None",
    "rfft.n": "int | None",
    "irfft.n": "int | None",
    "jacobian.f": "Callable[[Tensor], Tensor]",
    "jit.f": "Callable[..., Any] | None",
    "ReduceLROnPlateau.__init__.mode": "str",
    "pad.mode": "str",
    "LBFGS.__init__.line_search_fn": "str | None",
    "diff.axis": "int",
    "offset": "int",
    "diff.prepend": "Tensor | None",
    "diff.append": "Tensor | None",
    "linear.weight": "Tensor",
    "load_state_dict.state": "Mapping[str, Any]",
    "load_checkpoint.part": "str",
    "matrix_norm.ord": "int | float | str",
    "cholesky.upper": "bool",
    "cond.p": "int | float | str | None",
    "qr.mode": "str",
    "Module.apply.f": "Callable[[Module], Any]",
    "ModuleDict.__getitem__.name": "str",
    "no_grad.f": "Callable[..., Any] | None",
    "enable_grad.f": "Callable[..., Any] | None",
    "Optimizer.minimize.loss": "Tensor",
    "placeholder.shape": "Sequence[int] | None",
    "random_normal.seed": "int | None",
    "random_uniform.seed": "int | None",
    "random_split.lengths": "Sequence[int]",
    "register_buffer.tensor": "Any",
    "scan.length": "int | None",
    "Session.__exit__.exception": "Any",
    "state_dict.state": "Mapping[str, Any]",
    "Warmup.__init__.steps": "int",
    "Warmup.__init__.start": "float",
    "where.x1": "Any",
    "where.x2": "Any",
    "obj": "Any",
    "map_location": "Any",
    "astype.dtype": "DTypeLike",
    "isdtype.dtype": "DTypeLike",
    "cast.dtype": "DTypeLike",
    "concat.axis": "int | None",
    "argmax.axis": "int",
    "permute.axes": "Sequence[int]",
    "permute_dims.axes": "Sequence[int]",
    "tensordot.axes": "int | Sequence[Sequence[int]]",
    "fftshift.axes": "int | Sequence[int] | None",
    "ifftshift.axes": "int | Sequence[int] | None",
    "reduce_max.axis": "int | Sequence[int] | None",
    "reduce_mean.axis": "int | Sequence[int] | None",
    "reduce_sum.axis": "int | Sequence[int] | None",
    "norm.axis": "int | Sequence[int] | None",
    "sum.axis": "int | Sequence[int] | None",
    "prod.axis": "int | Sequence[int] | None",
    "sum.dim": "int | Sequence[int] | None",
    "prod.dim": "int | Sequence[int] | None",
    "sum.keepdim": "bool | None",
    "prod.keepdim": "bool | None",
    "roll.axis": "int | Sequence[int] | None",
    "sort.axis": "int",
    "argsort.axis": "int",
    "unstack.axis": "int",
    "assign.value": "Any",
    "Perplexity.update.loss": "float",
    "set_state.state": "tuple[int, int]",
    "seed.seed": "int",
    "key.seed": "int | None",
    "broadcast_arrays.arrays": "Tensor",
    "meshgrid.arrays": "Tensor",
    "MultiheadAttention.forward.value": "Tensor",
    "scaled_dot_product_attention.value": "Tensor",
    "Module.to.args": "Any",
    "equal.a": "Any",
    "equal.b": "Any",
    "real.x": "Tensor",
    "op": "str",
    "Rule.update.grad": "Tensor",
    "Rule.update.state": "dict[str, Tensor]",
    "Rule.update.lr": "Tensor",
    "Rule.update.step": "Tensor",
    "rows": "Sequence[int] | Tensor | None",
    "values": "Any",
}

# What functions return; a tensor where nothing is said, nothing for methods that begin a scope or hear of something.
RETURNS = {
    "wait": "None",
    "step": "int",
    "Rule.settings": "dict[str, Any]",
    "Rule.update": "tuple[Tensor, dict[str, Tensor]]",
    "rank": "int",
    **dict.fromkeys(["get_rank", "get_world_size"], "int"),
    **dict.fromkeys(["is_available", "is_initialized"], "bool"),
    "shard": "Any",
    "world_size": "int",
    "Accuracy.value": "float",
    "Adafactor": "None",
    "Auc.value": "float",
    "Confusion.accuracy": "float",
    "Confusion.f1": "float",
    "Confusion.precision": "float",
    "Confusion.recall": "float",
    "GRU.forward": "tuple[Tensor, Tensor]",
    "History.series": "dict[str, list[tuple[int, float]]]",
    "History.svg": "str",
    "LBFGS.step": "Tensor",
    "LSTM.forward": "tuple[Tensor, tuple[Tensor, Tensor]]",
    "Module.apply": "Self",
    "Module.buffers": "Iterator[Tensor]",
    "Module.children": "Iterator[Module]",
    "Module.eval": "Self",
    "Module.extra_repr": "str",
    "Module.forward": "Any",
    "Module.load_state_dict": "Any",
    **dict.fromkeys([f"Module.{n}" for n in "type float double half bfloat16 cuda cpu".split()], "Self"),
    "Module.get_submodule": "Module",
    **dict.fromkeys(["fuse_conv_bn_eval", "fuse_linear_bn_eval"], "Module"),
    **dict.fromkeys(["fuse_conv_bn_weights", "fuse_linear_bn_weights"], "tuple[Tensor, Tensor]"),
    "Module.compile": "None",
    **dict.fromkeys(
        [f"Module.register_{n}" for n in """forward_hook forward_pre_hook full_backward_hook full_backward_pre_hook
        state_dict_pre_hook state_dict_post_hook load_state_dict_pre_hook load_state_dict_post_hook""".split()],
        "Any",
    ),
    "Module.register_backward_hook": "None",
    "Module.modules": "Iterator[Module]",
    "MultiheadAttention.forward": "tuple[Tensor, Tensor | None]",
    "multi_head_attention_forward": "tuple[Tensor, Tensor | None]",
    "LSTMCell.forward": "tuple[Tensor, Tensor]",
    "RNNBase.forward": "Any",
    "RNNBase.all_weights": "list[list[Tensor]]",
    **{f"{kind}{n}d.forward": "Any" for kind in ("MaxPool", "AdaptiveMaxPool") for n in (1, 2, 3)},
    **{f"{kind}{n}d": "Any" for kind in ("max_pool", "adaptive_max_pool") for n in (1, 2, 3)},
    "Identity.forward": "Any",
    "calculate_gain": "float",
    "pack_padded_sequence": "PackedSequence",
    "pack_sequence": "PackedSequence",
    "pad_packed_sequence": "tuple[Tensor, Tensor]",
    "unpack_sequence": "list[Tensor]",
    "unpad_sequence": "list[Tensor]",
    "PackedSequence.to": "PackedSequence",
    "is_parametrized": "bool",
    **dict.fromkeys("register_parametrization remove_parametrizations weight_norm spectral_norm orthogonal".split(), "Module"),
    **dict.fromkeys("remove_weight_norm remove_spectral_norm".split(), "Module"),
    "clip_grads_with_norm_": "None",
    "vector_to_parameters": "None",
    "Module.named_buffers": "Iterator[tuple[str, Tensor]]",
    "Module.named_children": "Iterator[tuple[str, Module]]",
    "Module.named_modules": "Iterator[tuple[str, Module]]",
    "Module.named_parameters": "Iterator[tuple[str, Tensor]]",
    "Module.num_parameters": "int",
    "Module.parameters": "Iterator[Tensor]",
    "Module.requires_grad_": "Self",
    "Module.state_dict": "dict[str, Tensor]",
    "Module.to": "Self",
    "Module.train": "Self",
    "ModuleDict.items": "Iterable[tuple[str, Module]]",
    "ModuleDict.keys": "Iterable[str]",
    **{f"{c}.{m}": "Self" for c in ("ModuleList", "Sequential") for m in ("append", "extend", "insert")},
    **{f"{c}.pop": "Module" for c in ("ModuleList", "Sequential", "ModuleDict")},
    "ModuleDict.values": "Iterable[Module]",
    "ParameterList.append": "Self",
    "ParameterList.extend": "Self",
    "ParameterDict.keys": "Iterable[Any]",
    "ParameterDict.values": "list[Any]",
    "ParameterDict.items": "list[tuple[Any, Any]]",
    "ParameterDict.get": "Any",
    "ParameterDict.pop": "Any",
    "Optimizer.lr": "float",
    "Optimizer.minimize": "Update",
    "Optimizer.state_dict": "dict[str, Any]",
    "Optimizer.state": "Any",
    "Optimizer.step": "Any",
    "Optimizer.register_step_pre_hook": "Any",
    "Optimizer.register_step_post_hook": "Any",
    "Optimizer.minimize": "Update",
    **{f"{n}.minimize": "Update" for n in "SGD Adagrad Adam RMSprop Adadelta NAdam Lion Adafactor Adamax RAdam ASGD Rprop Muon Rule SparseAdam".split()},
    **{f"{n}.state": "Any" for n in "SGD Adagrad Adam RMSprop Adadelta NAdam Lion Adafactor Adamax RAdam ASGD Rprop Muon Rule SparseAdam".split()},
    "get_ema_avg_fn": "Callable[..., Tensor]",
    "get_swa_avg_fn": "Callable[..., Tensor]",
    "get_ema_multi_avg_fn": "Callable[..., None]",
    "get_swa_multi_avg_fn": "Callable[..., None]",
    "AveragedModel.forward": "Any",
    "AdaptiveLogSoftmaxWithLoss.forward": "tuple[Tensor, Tensor]",
    **{f"max_pool{n}d_with_indices": "tuple[Tensor, Tensor]" for n in (1, 2, 3)},
    "Module.to_empty": "Self",
    "Module.share_memory": "None",
    "skip_init": "Any",
    "cached": "Any",
    "type_before_parametrizations": "type",
    "AveragedModel.update_parameters": "None",
    "update_bn": "None",
    "functional_call": "Any",
    "stack_module_state": "tuple[dict[str, Tensor], dict[str, Tensor]]",
    "Perplexity.value": "float",
    "RNN.forward": "tuple[Tensor, Tensor]",
    "ReduceLROnPlateau.is_better": "bool",
    "CosineAnnealingWarmRestarts.T_cur": "int",
    "Session.run": "Any",
    "TopK.value": "float",
    "Trainer.fit": "History",
    "Trainer.resume": "int | None",
    "Trainer.total": "int | None",
    "Update.apply": "None",
    "allclose": "bool",
    "assign": "Update",
    "is_tensor": "bool",
    "split": "list[Tensor]",
    "LRScheduler.get_last_lr": "list[float]",
    "LRScheduler.get_lr": "list[float]",
    "LRScheduler.lr": "float",
    "LRScheduler.state_dict": "dict[str, Any]",
    "broadcast_arrays": "list[Tensor]",
    "broadcast_shapes": "tuple[int, ...]",
    "can_cast": "bool",
    "checkpoint": "Any",
    "clip_grad_value_": "None",
    "cond": "Any",
    "curves": "str",
    "custom_gradient": "Callable[..., Any]",
    "default_collate": "Any",
    "digits": "tuple[Tensor, Tensor]",
    "fashion_mnist": "tuple[Tensor, Tensor]",
    "eig": "EigResult",
    "eigh": "EighResult",
    "enable_grad": "Any",
    "finfo": "Any",
    "fori_loop": "Any",
    "get_state": "tuple[int, int]",
    "global_variables_initializer": "Update",
    "GradScaler.get_scale": "float",
    "GradScaler.state_dict": "dict[str, Tensor]",
    "autocast": "Any",
    "devices": "list[str]",
    "device_count": "int",
    "get_default_device": "str",
    "grad": "Callable[..., Any]",
    "is_available": "bool",
    "set_default_device": "None",
    "group": "list[Any]",
    "hessian": "Callable[[Tensor], Tensor]",
    "iinfo": "Any",
    "initialize_all_variables": "Update",
    "is_grad_enabled": "bool",
    "isdtype": "bool",
    "jacobian": "Callable[[Tensor], Tensor]",
    "jit": "Any",
    "jvp": "tuple[Any, Any]",
    "load": "Any",
    "load_checkpoint": "dict[str, Tensor]",
    "meshgrid": "list[Tensor]",
    "no_grad": "Any",
    "nonzero": "tuple[Tensor, ...]",
    "qr": "QRResult",
    "result_type": "dtype",
    "save": "None",
    "scan": "tuple[Any, Any]",
    "seed": "None",
    "set_state": "None",
    "slogdet": "SlogdetResult",
    "svd": "SVDResult",
    "unique": "Any",
    "unique_all": "UniqueAllResult",
    "unique_counts": "UniqueCountsResult",
    "unique_inverse": "UniqueInverseResult",
    "unstack": "tuple[Tensor, ...]",
    "value_and_grad": "Callable[..., tuple[Any, Any]]",
    "vmap": "Callable[..., Any]",
    "while_loop": "Any",
    "__array_namespace_info__": "Any",
}
NOTHING = {"update", "zero_grad", "step", "load_state_dict", "add_param_group", "stop", "close", "begin", "warn", "end"}
NOTHING |= {"register_parameter", "register_buffer", "register_module", "add_module", "evaluated", "reset_parameters"}
NOTHING |= {"flatten_parameters", "reset_running_stats", "initialize_parameters", "clear", "set_submodule"}
# Attributes that instances have.
ATTRIBUTES = {
    "Module": ["training: bool", "def __getattr__(self, name: str) -> Any: ..."],
    "Optimizer": ["param_groups: list[dict[str, Any]]", "defaults: dict[str, Any]"],
    "Rule": ["slots: dict[str, float]"],
    **{
        n: [f"def __call__(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Tensor, {state}]: ..."]
        for n, state in [("RNN", "Tensor"), ("GRU", "Tensor"), ("LSTM", "tuple[Tensor, Tensor]")]
    },
    "Linear": ["weight: Tensor", "bias: Tensor | None", "in_features: int", "out_features: int"],
    "QuantizedLinear": ["weight: Tensor", "scale: Tensor", "bias: Tensor | None"],
    "History": [
        "losses: list[tuple[int, float]]",
        "evaluations: list[tuple[int, dict[str, float]]]",
        "stop: str",
        "best: tuple[float, int] | None",
        "checkpoint: str | None",
    ],
    "Trainer": [
        "model: Module",
        "optimizer: Any",
        "loader: Iterable[Any]",
        "callbacks: list[Callback]",
        "history: History",
        "step: int",
        "epoch: int",
    ],
    "LRScheduler": ["last_epoch: int", "optimizer: Any", "base_lrs: list[float]"],
}
# Methods with other arguments than those of the base, as in PyTorch.
OVERRIDES = {"ReduceLROnPlateau.step"}
SPECIAL = {
    "__len__": "int",
    "__iter__": "Iterator[Any]",
    "__getitem__": "Any",
    "__setitem__": "None",
    "__enter__": "Self",
    "__exit__": "None",
    "__call__": "Any",
}
HEAD = '''"""{doc}"""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

'''


def public(module):
    """The names a module offers."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n in vars(module) if not n.startswith("_")]
    values = {n: getattr(module, n, None) for n in names}
    inner = {n for n, v in values.items() if inspect.ismodule(v) or getattr(v, "__module__", "") == "talweg._checked"}
    return sorted(set(values) - inner - {"Any", "NamedTuple"})


def typed(where, p):
    """The type of a parameter, by its place or its name."""
    name = p.name.strip("_") if p.name not in ("class_", "from_") else p.name
    for key in [f"{where}.{name}", f"{where.split('.')[-1]}.{name}"]:
        if key in TYPES:
            return TYPES[key]
    if name not in TYPES:
        raise KeyError(f"no type is known for the parameter {name} of {where}: add it to python/stubs.py")
    kind = TYPES[name]
    if isinstance(p.default, str) and "str" not in kind:
        kind = "str"
    if isinstance(p.default, float) and kind == "int":
        kind = "float"
    if p.default is None and "None" not in kind and kind != "Any":
        kind += " | None"
    return kind


def default(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return "..."


def parameters(where, f, skip_self):
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return "self, *args: Any, **kwargs: Any" if skip_self else "*args: Any, **kwargs: Any"
    out, ps = [], list(signature.parameters.values())
    if skip_self:
        out, ps = ["self"], ps[1:]
    has_star = False
    for i, p in enumerate(ps):
        if p.kind is p.VAR_POSITIONAL:
            out.append(f"*{p.name}: {typed(where, p)}")
            has_star = True
            continue
        if p.kind is p.VAR_KEYWORD:
            out.append(f"**{p.name}: Any")
            continue
        if p.kind is p.KEYWORD_ONLY and not has_star:
            out.append("*")
            has_star = True
        text = f"{p.name}: {typed(where, p)}"
        if p.default is not p.empty:
            text += f" = {default(p.default)}"
        out.append(text)
        is_last = i + 1 == len(ps) or ps[i + 1].kind is not p.POSITIONAL_ONLY
        if p.kind is p.POSITIONAL_ONLY and is_last:
            out.append("/")
    return ", ".join(out)


def documented(doc, indent):
    if not doc:
        return f"{indent}    ..."
    text = inspect.cleandoc(doc).replace("\\", "\\\\").replace('"""', "'''")
    return textwrap.indent(f'"""{text}"""', indent + "    ", lambda line: bool(line.strip()))


def returned(where, name, is_method):
    if where in RETURNS:
        return RETURNS[where]
    if name in SPECIAL:
        return SPECIAL[name]
    return "None" if is_method and (name in NOTHING or name.startswith("on_")) else "Tensor"


def function(name, f, indent="", owner="", is_static=False):
    where = f"{owner}.{name}" if owner else name
    listed = parameters(where, f, bool(owner) and not is_static)
    head = f"{indent}def {name}({listed}) -> {returned(where, name, bool(owner))}:"
    return f"{head}\n{documented(getattr(f, '__doc__', None), indent)}\n"


def bases(cls, names):
    """The public class it derives from."""
    for base in cls.__mro__[1:]:
        if (base.__name__ in names or base in (tw.Tensor, tw.nn.Module)) and base is not object and base is not cls:
            return base
    for base in cls.__mro__[1:]:
        if issubclass(base, BaseException) and base.__module__ == "builtins":
            return base
    return None


def members(cls, base):
    """What a class adds to its public base, also through private bases."""
    out = {}
    for c in cls.__mro__:
        if c is base or c is object or c.__module__ == "builtins":
            break
        for name, value in vars(c).items():
            out.setdefault(name, value)
    return out


def klass(name, cls, names):
    base = bases(cls, names)
    if hasattr(cls, "_fields"):
        spelled = lambda t: str(t).replace("talweg.", "") if isinstance(t, types.UnionType) else t.__name__
        fields = "".join(f"    {f}: {spelled(t)}\n" for f, t in cls.__annotations__.items())
        return f"class {name}(NamedTuple):\n{documented(cls.__doc__, '')}\n{fields}"
    if issubclass(cls, BaseException):
        listed = ", ".join(b.__name__ for b in cls.__bases__)
        return f"class {name}({listed}):\n{documented(cls.__doc__, '')}\n"
    out = [f"class {name}({base.__name__}):" if base else f"class {name}:", documented(cls.__doc__, "")]
    owners = [name, *(c.__name__ for c in cls.__mro__[1:] if c is not base and c.__name__ in ("LRScheduler",))]
    for owner in owners:
        out += [f"    {line}" for line in ATTRIBUTES.get(owner, [])]
    found = members(cls, base)
    made = found.get("__init__") or found.get("__new__")
    native = cls.__module__.startswith("talweg") and "__init__" not in found and callable(found.get("__new__"))
    if native:
        signature = cls if not isinstance(found["__new__"], staticmethod) else found["__new__"].__func__
        listed = parameters(f"{name}.__init__", signature, signature is not cls)
        listed = listed if listed.startswith("self") else f"self{', ' if listed else ''}{listed}"
        out.append(f"    def __init__({listed}) -> None: ...")
    elif made is not None:
        out.append(f"    def __init__({parameters(f'{name}.__init__', made, True)}) -> None: ...")
    for n, value in sorted(found.items()):
        is_special = n in SPECIAL and n != "__call__"
        if (n.startswith("_") and not is_special) or inspect.isclass(value) or n in ("training", "defaults"):
            continue
        if isinstance(value, property) or inspect.isgetsetdescriptor(value):
            kind = RETURNS.get(f"{name}.{n}", "Any")
            out.append(f"    @property\n    def {n}(self) -> {kind}: ...")
            if getattr(value, "fset", None):
                out.append(f"    @{n}.setter\n    def {n}(self, value: {kind}) -> None: ...")
        elif callable(value):
            if n == "extra_repr" and base is not None:
                continue
            owner = next((c.__name__ for c in cls.__mro__ if f"{c.__name__}.{n}" in RETURNS and n != "forward"), name)
            text = function(n, value, "    ", owner).rstrip()
            if f"{name}.{n}" in OVERRIDES:
                text = text.replace(":\n", ":  # type: ignore[override]\n", 1)
            out.append(text)
            if n == "forward":
                call = function("__call__", value, "    ", owner)
                result = returned(f"{owner}.forward", "forward", True)
                out.append(call.split("\n")[0].rsplit(" -> ", 1)[0] + f" -> {result}: ...")
    return "\n".join(out) + "\n"


def stub(name):
    """The text of a module's stubs."""
    module = importlib.import_module(f"talweg.{name}")
    names = public(module)
    depth = "." * (name.count(".") + 1)
    is_package = hasattr(module, "__path__")
    if is_package:
        depth += "."
    out = [HEAD.format(doc=inspect.cleandoc(module.__doc__).splitlines()[0])]
    # Whatever the types name and the module does not define.
    lists = {
        "": ["Tensor", "dtype", "DTypeLike", "Update"],
        "nn": ["Module"],
        "train": ["Callback", "History", "Silent", "Trainer"],
        "utils.data": ["Subset"],
    }
    for source, wanted in lists.items():
        if source == name:
            continue
        for w in wanted:
            # Only what the module offers itself is offered on.
            again = f" as {w}" if w in names else ""
            out.append(f"from {depth}{source} import {w}{again}\n")
    if is_package:
        parts = sorted(n for n, v in vars(module).items() if inspect.ismodule(v) and v.__name__ == f"{module.__name__}.{n}")
        hidden = {"module", "modules", "parallel", "layers", "containers", "hooks", "parameter", "state", "old_norms", "prune", "optimizers", "progress", "trainer"}
        hidden |= {"optimizer", "native", "rules", "lbfgs", "schedule", "cycles", "curves", "activation", "attention", "common", "convolution", "loss", "normalization", "fractional", "vision"}
        out += [f"from . import {p} as {p}\n" for p in parts if p not in hidden]
    out.append("\n")
    classes = [n for n in names if inspect.isclass(getattr(module, n))]
    order = sorted(classes, key=lambda n: len(getattr(module, n).__mro__))
    for n in order:
        cls = getattr(module, n)
        if cls in (tw.Tensor, tw.dtype, tw._native.Update):
            continue
        if not cls.__module__.startswith("talweg"):
            continue
        out.append(klass(n, cls, classes) + "\n")
    for n in names:
        value = getattr(module, n)
        if inspect.isclass(value):
            continue
        if inspect.ismethoddescriptor(value) or getattr(value, "__qualname__", "").startswith("Tensor."):
            out.append(f"{n} = Tensor.{value.__name__}\n")
        elif callable(value):
            out.append(function(n, value))
        else:
            out.append(f"{n}: {'dtype' if isinstance(value, tw.dtype) else 'Any'}\n")
    return "".join(out)


def path(name):
    """The file of a module's stubs."""
    module = importlib.import_module(f"talweg.{name}")
    parts = name.split(".")
    return ROOT.joinpath(*parts, "__init__.pyi") if hasattr(module, "__path__") else ROOT.joinpath(*parts).with_suffix(".pyi")


if __name__ == "__main__":
    for name in MODULES:
        path(name).write_text(stub(name))
