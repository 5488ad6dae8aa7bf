"""Hand-emitted machine code: functions whose LLVM instructions are written out.

Code goes here only where a plain numba loop was measured to be slower or to take much longer to
compile, or cannot express the operation at all (atomic memory access, calling a function by its
address). Rules of this folder:

- A module holds instructions and nothing else; algorithms that use them live elsewhere.
- Every function has a version without them, in numba or NumPy, that computes the same. Tests in
  `tests/intrinsics` compare the two on the processor at hand. Where a processor lacks an
  instruction, that version is compiled instead, so that results never depend on the machine.
- Atomic operations have none, because no plain load or store is atomic; LLVM provides
  them on every processor. Their tests compare them with the sequential meaning.
- Callers see ordinary functions of numba arrays and numbers, never LLVM values, except for
  the building blocks of other modules of this folder.

Modules: `atomics` (memory shared by threads), `byte_products` (inner products of bytes, AVX-512
VNNI), `calls` (by address), `landmark_tiles` (Gaussian landmarks, sixteen at a time), `scalars`
(the larger of two numbers, bits of a float, population count), `tree_descent` (eight rows at a time
down a tree), `views` (matrices in flat arrays).
"""
