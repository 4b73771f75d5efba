"""EtReport: what a program or an app consists of, as JSON and as one self-contained page."""
