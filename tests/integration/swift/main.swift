// Uses the classes as an app does: `main FOLDER STATE` runs programs of an app with variants, and prints what it sees.
import Foundation

let folder = URL(fileURLWithPath: CommandLine.arguments[1])
let state = URL(fileURLWithPath: CommandLine.arguments[2])

func sentence(_ body: () throws -> Void) {
  do {
    try body()
    print("no error")
  } catch {
    print(error.localizedDescription)
  }
}

let small = try Programs(folder, verify: true, device: ["ram_gb": "2"], state: state)
print(small.names.joined(separator: " "))
print(small.variant("net_1")!.split(separator: "\n")[1])
print(small.variant() ?? "several")
let program = try small.load("net_1")
print(program.methods.joined(separator: " "))
let ones = Tensor([Float](repeating: 1, count: 64), shape: [1, 64])
let outputs = try program.run([ones])
let large = try Programs(folder, weightCache: true, variants: ["xnnpack_1"])
let others = try large.load("net_1").run([ones], method: "forward")
let pairs = zip(outputs[0].floats!, others[0].floats!)
print(outputs[0].dtype, outputs[0].shape, pairs.allSatisfy { abs($0 - $1) < 1e-4 })
sentence { _ = try Programs(folder, variants: ["none"]) }
sentence { _ = try Programs(folder, device: ["a b": "c"]) }
sentence { _ = try Programs(folder, device: ["a": "b\0"]) }
sentence { _ = try small.load("none") }
sentence { _ = try program.run([]) }
sentence { _ = try program.run([Tensor([Int64](repeating: 1, count: 64), shape: [1, 64])]) }
sentence { _ = try program.chat() }
