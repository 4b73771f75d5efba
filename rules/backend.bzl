"""et_backend: what programs delegate to."""

load("//rules:providers.bzl", "EtBackendInfo")

def _et_backend_impl(ctx):
    return [EtBackendInfo(label = ctx.label, id = ctx.attr.id)]

et_backend = rule(
    implementation = _et_backend_impl,
    doc = """A backend, by the name that runtimes register it under.

```python
et_backend(name = "xnnpack", id = "XnnpackBackend")
```
""",
    attrs = {
        "id": attr.string(
            doc = "Name in the runtime's registry; empty for ExecuTorch's own kernels.",
        ),
    },
    provides = [EtBackendInfo],
)
