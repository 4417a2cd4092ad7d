import Foundation

/// A temporary directory, removed with its content when the object is deallocated.
final class TemporaryDirectory: Sendable {
    let path: String

    init() {
        let base = FileManager.default.temporaryDirectory.path
        var template = Array("\(base)/msgqueue-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("no temporary directory in \(base)") }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The path of the store of a test.
    var store: String { file("outbox.db") }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// The names of its entries.
    var names: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted() }
}
