"""A cache over HTTP: files that nginx takes and gives."""

from __future__ import annotations

import grp
import os
import pwd
import socket

from dev.remote.engines import loaded_with
from dev.remote.server import HOST, Server

# What is not a name of an entry is refused: no file but those of the cache can be read or written.
_CONFIGURATION = """\
daemon off;
{user}
worker_processes 2;
pid {scratch}/pid;
error_log stderr warn;
events {{
  worker_connections 1024;
}}
http {{
  access_log off;
  default_type application/octet-stream;
  server_tokens off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  # On the cache's own disk, so that an entry appears whole or not at all.
  client_body_temp_path "{directory}/incoming";
  client_max_body_size 0;
  fastcgi_temp_path "{scratch}/fastcgi";
  proxy_temp_path "{scratch}/proxy";
  scgi_temp_path "{scratch}/scgi";
  uwsgi_temp_path "{scratch}/uwsgi";
  server {{
    listen {host}:{port};
    root "{directory}";
    location / {{
      return 404;
    }}
    location = / {{
      return 200 "executorch\\n";
    }}
    location ~ "^/(ac|cas)/[0-9a-f]{{64}}$" {{
      dav_methods PUT;
      create_full_put_path on;
      limit_except GET PUT {{
        deny all;
      }}
    }}
  }}
}}
"""


class HttpCache(Server):
    """Bazel's cache protocol over HTTP, with nginx.

    Nothing is evicted: its directory grows until somebody empties it.
    """

    name = "http-cache"
    scheme = "http"

    @property
    def flags(self) -> list[str]:
        """Bazel's flags that use it."""
        return ["--config=remote-cache", f"--remote_cache={self.address}"]

    def _command(self) -> list[str]:
        # Started by root it would become nobody, who can't write here.
        user = ""
        if os.geteuid() == 0:
            user = f"user {pwd.getpwuid(0).pw_name} {grp.getgrgid(0).gr_name};"
        configuration = self.scratch / "nginx.conf"
        configuration.write_text(
            _CONFIGURATION.format(
                directory=self.directory,
                host=HOST,
                port=self.port,
                scratch=self.scratch,
                user=user,
            ),
            encoding="utf-8",
        )
        nginx = self.engines.nginx
        program = loaded_with(nginx / "usr/sbin/nginx", nginx)
        return [*program, "-e", "stderr", "-p", str(self.scratch), "-c", str(configuration)]

    def _answers(self, connection: socket.socket) -> bool:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return connection.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
