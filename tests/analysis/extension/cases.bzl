"""Tags of the module extension, and what it rejects."""

load("//tests/analysis:tables.bzl", "failure_tests")
load(":downloads.bzl", "choice_test", "lists_test", "malformed_url")
load(":extension.bzl", "different_tags", "equal_tags_test", "other_host", "supported_hosts_test")
load(":hugging_face.bzl", "good_tag_test", "wrong_tag")
load(":runtime.bzl", "older_versions_test", "runtime_sources_test", "wrong_older_version", "wrong_runtime")

# The Maven repository and the hash of a tag that has all it needs.
_MAVEN = {
    "maven": "org.pytorch:executorch-android:1.5.1",
    "maven_repository": "https://maven.example",
    "sha256": "0" * 64,
}

def cases():
    """Declares the targets of this package."""

    equal_tags_test(name = "equal_tags_test")

    choice_test(name = "choice_test")

    supported_hosts_test(name = "supported_hosts_test")

    failure_tests(other_host, {
        "windows_test": (
            "rules_executorch: operating system of this machine: got \"windows 11\", expected Linux or macOS. On " +
            "Windows, run Bazel in WSL 2.",
            dict(os_name = "windows 11"),
        ),
        "freebsd_test": (
            "operating system of this machine: got \"freebsd\", expected Linux or macOS.",
            dict(os_name = "freebsd"),
        ),
    })

    lists_test(name = "lists_test")

    good_tag_test(name = "good_tag_test")

    runtime_sources_test(name = "runtime_sources_test")

    older_versions_test(name = "older_versions_test")

    failure_tests(malformed_url, {
        "malformed_url_test": (
            "//:urls.txt:2: malformed URL: got \"https://one.example/x.whl#sha256=12\", expected " +
            "<URL>#sha256=<64 hex digits>. Correct this line.",
            {},
        ),
    })

    failure_tests(different_tags, {
        "different_tags_test": (
            "repository @weights: got different tags of the modules app and nets, expected equal ones. Rename " +
            "one of them: begin the names of a module's repositories with its own name (name = \"nets_weights\").",
            {},
        ),
    })

    failure_tests(wrong_older_version, {
        "older_version_malformed_test": (
            "executorch.older_runtime(executorch_version = \"1.4\"): got no version, expected one such as " +
            "\"1.4.0\". Correct it.",
            dict(version = "1.4"),
        ),
        "older_version_without_headers_test": (
            "executorch.older_runtime(executorch_version = \"1.2.0\"): got a version before 1.3.0, expected a " +
            "later one: older wheels lack the C++ headers that a test compiles with. Remove the tag.",
            dict(version = "1.2.0"),
        ),
    })

    failure_tests(wrong_runtime, {
        "runtime_no_source_test": (
            "attributes: got none, expected one source: executorch_version and sha256 (a wheel), maven, " +
            "maven_repository and sha256 (an AAR), or archives and executorch_version (AARs or xcframeworks). " +
            "Add executorch_version, sha256.",
            {},
        ),
        "runtime_no_repository_test": (
            "attributes: got maven, sha256, expected one source: executorch_version and sha256 (a wheel), maven, " +
            "maven_repository and sha256 (an AAR), or archives and executorch_version (AARs or xcframeworks). " +
            "Add maven_repository.",
            dict(_MAVEN, maven_repository = ""),
        ),
        "runtime_two_sources_test": (
            "attributes: got archives, executorch_version, maven, maven_repository, sha256, expected one source: " +
            "executorch_version and sha256 (a wheel), maven, maven_repository and sha256 (an AAR), or archives and " +
            "executorch_version (AARs or xcframeworks). Remove maven, maven_repository, sha256.",
            dict(
                _MAVEN,
                archives = ["https://files.example/a.aar#sha256=" + "0" * 64],
                executorch_version = "1.5.1",
            ),
        ),
        "runtime_two_versions_test": (
            "attributes: got executorch_version, maven, maven_repository, sha256, expected one source",
            dict(_MAVEN, executorch_version = "1.4.1"),
        ),
        "runtime_wheel_for_android_test": (
            "platform of a wheel: got \"android_arm64\", expected one of linux_arm64, linux_x86_64, macos_arm64. " +
            "Use another source for this platform.",
            dict(executorch_version = "1.5.1", sha256 = "0" * 64),
        ),
        "runtime_coordinates_test": (
            "maven: got \"org.pytorch:executorch-android\", expected \"<group>:<artifact>:<version>\". Correct it.",
            dict(_MAVEN, maven = "org.pytorch:executorch-android"),
        ),
        "runtime_path_in_coordinates_test": (
            "maven: got \"org.pytorch:executorch-android:../1.5.1\", expected",
            dict(_MAVEN, maven = "org.pytorch:executorch-android:../1.5.1"),
        ),
        "runtime_repository_without_scheme_test": (
            "maven_repository: got \"maven.example\", expected the URL of a Maven repository. Correct it.",
            dict(_MAVEN, maven_repository = "maven.example"),
        ),
        "runtime_short_hash_test": (
            "sha256: got \"12\", expected 64 hex digits in lower case. Correct it.",
            dict(_MAVEN, sha256 = "12"),
        ),
        "runtime_archive_without_hash_test": (
            "archives: malformed URL: got \"https://files.example/a.aar\", expected <URL>#sha256=<64 hex digits>.",
            dict(archives = ["https://files.example/a.aar"], executorch_version = "1.5.1"),
        ),
        "runtime_headers_test": (
            "C++ headers: got those of ExecuTorch 1.5.1, expected 1.4.1. Set headers_sha256 to the sha256 of " +
            "executorch 1.4.1's wheel for CPython 3.11 and manylinux_2_28_x86_64.",
            dict(_MAVEN, maven = "org.pytorch:executorch-android:1.4.1"),
        ),
    }, prefix = "executorch.runtime(platform = \"android_arm64\"): ")

    failure_tests(wrong_runtime, {
        "runtime_no_hash_test": (
            "executorch.runtime(platform = \"linux_x86_64\"): attributes: got executorch_version, expected one source",
            dict(executorch_version = "1.5.1", platform = "linux_x86_64"),
        ),
        "runtime_maven_for_ios_test": (
            "executorch.runtime(platform = \"ios_arm64\"): platform of maven: got \"ios_arm64\", expected one of " +
            "android_arm64, android_x86_64.",
            dict(_MAVEN, platform = "ios_arm64"),
        ),
    })

    failure_tests(wrong_tag, {
        "hugging_face_branch_test": (
            "revision: got \"main\", expected a commit of 40 hex digits. A branch or tag may name other files " +
            "tomorrow, and the build would fail or change. \"bazel run @rules_executorch//tools:et -- pin org/net " +
            "--revision main\" prints the tag with its commit.",
            dict(revision = "main"),
        ),
        "hugging_face_short_commit_test": (
            "revision: got \"0123456\", expected a commit of 40 hex digits.",
            dict(revision = "0123456"),
        ),
        "hugging_face_address_test": (
            "repo: got \"https://huggingface.co/org/net\", expected the model's name on the hub",
            dict(repo = "https://huggingface.co/org/net"),
        ),
        "hugging_face_parent_as_repo_test": (
            "repo: got \"org/..\", expected the model's name",
            dict(repo = "org/.."),
        ),
        "hugging_face_no_files_test": ("files: got none, expected paths with their sha256.", dict(paths = [])),
        "hugging_face_file_and_folder_test": (
            "files: got both \"a\" and \"a/b\", expected a file or a folder.",
            dict(paths = ["a", "a/b"]),
        ),
        "hugging_face_hash_test": (
            "files: sha256 of \"model.safetensors\": got \"0123\", expected 64 hex digits.",
            dict(sha256 = "0123"),
        ),
        "hugging_face_license_test": (
            "license: got \"MIT\\\"\", expected an SPDX expression",
            dict(license = "MIT\""),
        ),
    } | {
        "hugging_face_%s_test" % name: (
            "files: got \"%s\", expected a path that a repository can have: it has %s" % (
                path.replace("\n", "\\n"),
                message,
            ),
            dict(paths = [path]),
        )
        for name, path, message in [
            ("absolute", "/etc/passwd", "an empty part"),
            ("build_file", "onnx/Build.bazel", "a name with a meaning for Bazel."),
            ("control_character", "a\nb.json", "characters that are not"),
            ("parent", "../x.json", "an empty part, . or ..."),
            ("target", "checkpoint", "the name of a target"),
        ]
    }, prefix = "executorch.hugging_face(name = \"net\"): ")
