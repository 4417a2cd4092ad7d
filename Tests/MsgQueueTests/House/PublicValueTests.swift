import Foundation
import Testing

/// What is kept for every public type, read from the sources.
@Suite struct PublicValueTests {
    private struct Declared: Hashable {
        let module: String
        /// With the types in which it is nested.
        let name: String
        let isEnum: Bool
        /// What its declaration and its extensions name after the colon.
        var conformances: Set<String> = []
    }

    /// Above this file: House, MsgQueueTests, Tests, the package.
    private static let sources: URL = {
        var root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root.appendingPathComponent("Sources")
    }()

    /// The public structures and enumerations of a module.
    private static func declared(_ module: String) throws -> [Declared] {
        let found = try #require(
            FileManager.default.enumerator(at: sources.appendingPathComponent(module), includingPropertiesForKeys: nil))
        var types: [String: Declared] = [:]
        var extended: [String: Set<String>] = [:]
        for case let file as URL in found where file.pathExtension == "swift" {
            // The types around the current line, with their indentation.
            var around: [(indentation: Int, name: String)] = []
            for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
                // Most lines have none of these words; a search for the pattern takes much longer.
                guard ["struct ", "enum ", "class ", "extension "].contains(where: { line.contains($0) }) else { continue }
                let indentation = line.prefix { $0 == " " }.count
                guard let match = line.firstMatch(of: /^ *(.*?)\b(struct|enum|class|extension) ([\w.]+)(?:<[^>]*>)?[^:{]*(?:: ([^{]*))?/)
                else {
                    continue
                }
                guard
                    match.1.split(separator: " ").allSatisfy({
                        ["public", "package", "final", "indirect", "fileprivate", "private"].contains($0)
                    })
                else { continue }
                while let last = around.last, last.indentation >= indentation { around.removeLast() }
                let name = (around.map(\.name) + [String(match.3)]).joined(separator: ".")
                around.append((indentation, String(match.3)))
                let conformances = Set((match.4 ?? "").split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) })
                extended[name, default: []].formUnion(conformances)
                guard match.1.contains("public"), ["struct", "enum"].contains(match.2) else { continue }
                types[name] = Declared(module: module, name: name, isEnum: match.2 == "enum")
            }
        }
        return types.values.map { type in
            var type = type
            type.conformances = extended[type.name] ?? []
            return type
        }
    }

    @Test(arguments: [("MsgQueue", 30), ("MsgQueueSimulation", 7)])
    func every_public_value_has_a_description(_ module: String, atLeast count: Int) throws {
        let types = try Self.declared(module)
        #expect(types.count >= count)
        for type in types where !type.conformances.contains("AsyncSequence") && !type.conformances.contains("AsyncIteratorProtocol") {
            #expect(type.conformances.contains("CustomStringConvertible"), "\(module): \(type.name) has no description")
        }
    }

    /// `CodedValueTests` tests the types that it lists.
    @Test func X13_every_public_value_can_be_compared_and_coded() throws {
        var values: Set<String> = []
        for type in try Self.declared("MsgQueue") {
            guard !type.conformances.contains("AsyncSequence"), !type.conformances.contains("AsyncIteratorProtocol") else { continue }
            let isCoded = type.conformances.contains("Codable") || type.conformances.isSuperset(of: ["Encodable", "Decodable"])
            #expect(isCoded, "\(type.name)")
            let isNumbered = type.conformances.contains("Int32")
            #expect(isNumbered || type.conformances.contains("Hashable"), "\(type.name)")
            #expect(isNumbered ? type.conformances.contains("CaseIterable") : true, "\(type.name)")
            let name = type.name.replacing("MessageQueue.", with: "")
            // Those that are coded as one number or one text.
            if !isNumbered, !["Token", "Timestamp", "ChangeToken"].contains(name) { values.insert(name) }
        }
        #expect(values == Set(CodedValueTests.types.keys))
    }
}
