// swift-tools-version:5.9
import PackageDescription

let package = Package(
  name: "Tasks",
  platforms: [.iOS(.v17)],
  dependencies: [
    // The branch of the exporter's version of ExecuTorch.
    .package(url: "https://github.com/pytorch/executorch.git", branch: "swiftpm-1.5.1")
  ]
)
