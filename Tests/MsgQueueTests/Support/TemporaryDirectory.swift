import Foundation

/// A directory of a test's own, gone with all that is in it when nobody holds it any more.
final class TemporaryDirectory: Sendable {
    let path: String

    init() {
        let base = FileManager.default.temporaryDirectory.path
        var template = Array("\(base)/msgqueue-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("no temporary directory in \(base)") }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Where a test's store lies.
    var store: String { file("outbox.db") }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// The names of what is in it.
    var names: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted() }
}
