"""Hand-emitted machine code: functions whose LLVM instructions are written out.

Code is here only if a plain numba loop was measured to be slower or to take much longer to compile,
or if numba cannot express the operation (atomic memory access, calling a function by its address).
Rules of this folder:

- A module holds instructions and nothing else; algorithms that use them are in other folders. Only
  `products` is not about instructions: it is here because every package imports it.
- Every function has a version without hand-emitted instructions, in numba or NumPy, that computes
  the same. Tests in `tests/intrinsics` compare the two on the processor at hand. If a processor
  lacks an instruction, that version is compiled instead, so results do not depend on the machine.
- Atomic operations have no such version, because no plain load or store is atomic; LLVM provides
  them on every processor. Their tests compare them with sequential operations.
- Callers see ordinary functions of numba arrays and numbers, never LLVM values, except for
  the building blocks of other modules of this folder.

Modules: `atomics` (memory shared by threads), `byte_products` (inner products of bytes, AVX-512
VNNI), `calls` (by address), `landmark_tiles` (Gaussian landmarks, sixteen at a time), `products`
(BLAS without spurious warnings), `scalars` (the larger of two numbers, bits of a float, population
count), `tree_descent` (eight rows at a time down a tree), `vector_instructions` (for
`landmark_tiles`), `views` (sections of flat arrays).

Users of instructions are `kbench.kernels`, `kbench.prediction`, `kbench.clustering`,
`kbench.solvers` and `kbench.methods`.
"""
