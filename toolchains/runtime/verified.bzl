"""VERIFIED_EXPORTERS: what //tests/backends:release showed on ExecuTorch's own wheels."""

# Version of a runtime to newer exporters whose programs give the eager model's outputs on it, for each recipe of
# XNNPACK and of portable. The tests `…_older_test` run just these versions, so none is listed without them.
VERIFIED_EXPORTERS = {
    "1.3.1": ["1.5.1"],
    "1.4.0": ["1.5.1"],
    "1.4.1": ["1.5.1"],
    "1.5.0": ["1.5.1"],
}
