"""Remote caches and a remote executor on this machine, with existing engines.

```python
with GrpcCache(load_engines(), directory=Path("/var/cache/bazel")) as server:
    subprocess.run(["bazel", "build", *server.flags, "//..."], check=True)
```
"""

from etremote.engines import Engines, load_engines
from etremote.errors import ServerError
from etremote.executor import Executor
from etremote.grpc_cache import GrpcCache
from etremote.http_cache import HttpCache
from etremote.server import Server

__all__ = [
    "Engines",
    "Executor",
    "GrpcCache",
    "HttpCache",
    "Server",
    "ServerError",
    "load_engines",
]
