"""npm_repositories: programs out of npm's packages, for work on these rules; fetched only where they run."""

load("//toolchains/npm:npm.bzl", "npm_folders")

def npm_repositories():
    """`@executorch_buildifier//:buildifier`, for this machine."""
    npm_folders(
        name = "executorch_buildifier",
        build_file = Label("//toolchains/npm:buildifier.BUILD"),
        folders = {
            "%s/buildifier" % platform: "buildifier-" + platform
            for platform in ["darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"]
        },
        package = "@bazel/buildifier@8.2.1",
        sha256 = "b96ea9b13003036c801f52bee6f9b0314738f8432e5cb9d814c89f59292604ee",
    )
