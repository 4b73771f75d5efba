"""Prints the version in a QNN library: `qnn_version.py lib/x86_64-linux-clang/libQnnHtp.so`."""

import mmap
import re
import sys

# The library's build id: "v2.49.40.260810104044".
_BUILD_ID = re.compile(rb"\bv(\d{1,3}(?:\.\d{1,3}){2})\.\d{6,14}\b")

with (
    open(sys.argv[1], "rb") as file,
    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
):
    found = _BUILD_ID.search(data)
    print(found[1].decode() if found else "")
