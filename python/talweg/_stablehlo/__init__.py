"""StableHLO, what JAX programs are exported as, in Talweg's ops: what `from_jax` is made of.

`read` takes a module of MLIR to plain data, with calls inlined; only it needs jaxlib. `table` has the rows of
elementwise operators and shapes; `products`, `indices`, `windows`, `matrices` and `control` have the others. `program`
is the module that runs them.
"""
