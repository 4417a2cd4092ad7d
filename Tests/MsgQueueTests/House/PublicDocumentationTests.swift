import Foundation
import Testing

/// Every public declaration has a comment, from which the documentation is made.
@Suite struct PublicDocumentationTests {
    /// Above this file: House, MsgQueueTests, Tests, the package.
    private let sources: URL = {
        var root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root.appendingPathComponent("Sources")
    }()

    private func indentation(_ line: Substring) -> Int { line.prefix { $0 == " " }.count }

    /// Whether the line is a case of a public enumeration: the next line above it that is indented less begins that.
    private func isPublicCase(_ index: Int, _ lines: [Substring]) -> Bool {
        guard lines[index].drop(while: { $0 == " " }).hasPrefix("case ") else { return false }
        let outer = lines[..<index].last { $0.contains { $0 != " " } && indentation($0) < indentation(lines[index]) }
        return outer.map { $0.contains("public enum ") || $0.contains("public indirect enum ") } ?? false
    }

    /// Whether a comment stands above the line, before its attributes.
    private func isDocumented(_ index: Int, _ lines: [Substring]) -> Bool {
        let above = lines[..<index].last { !$0.drop { $0 == " " }.hasPrefix("@") }
        return above?.drop { $0 == " " }.hasPrefix("///") ?? false
    }

    @Test(arguments: ["MsgQueue", "MsgQueueHTTP", "MsgQueueFoundation", "MsgQueueOutbox", "MsgQueueSimulation"])
    func every_public_declaration_has_a_comment(_ module: String) throws {
        let folder = sources.appendingPathComponent(module)
        let found = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        var count = 0
        for case let file as URL in found where file.pathExtension == "swift" {
            let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false)
            for (index, line) in lines.enumerated() {
                let isPublic = line.drop { $0 == " " }.hasPrefix("public ")
                guard isPublic || isPublicCase(index, lines) else { continue }
                count += 1
                #expect(isDocumented(index, lines), "\(module)/\(file.lastPathComponent):\(index + 1): \(line)")
            }
        }
        #expect(count >= 5, "\(module) has public declarations")
    }
}
