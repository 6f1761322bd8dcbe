"""Machine code of generated Python, by numba: the functions, their cache on disk, and the thread that compiles them."""
