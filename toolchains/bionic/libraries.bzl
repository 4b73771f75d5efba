"""LIBRARIES: the bench's libraries, in the order in which a process loads them."""

LIBRARIES = [
    # What libc.so calls.
    "libbench.so",
    "libc.so",
    "libandroid.so",
    "libdl.so",
    "liblog.so",
    "libm.so",
]
