"""Remote caches and a remote executor on this machine, with existing engines.

```python
with GrpcCache(load_engines(), directory=Path("/var/cache/bazel")) as server:
    subprocess.run(["bazel", "build", *server.flags, "//..."], check=True)
```
"""

from dev.remote.engines import Engines, load_engines
from dev.remote.errors import ServerError
from dev.remote.executor import Executor
from dev.remote.grpc_cache import GrpcCache
from dev.remote.http_cache import HttpCache
from dev.remote.server import Server

__all__ = [
    "Engines",
    "Executor",
    "GrpcCache",
    "HttpCache",
    "Server",
    "ServerError",
    "load_engines",
]
