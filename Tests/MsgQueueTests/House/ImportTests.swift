import Foundation
import Testing

/// The house: who may know whom.
@Suite struct ImportTests {
    /// Above this file: House, MsgQueueTests, Tests, the package.
    private let sources: URL = {
        var root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root.appendingPathComponent("Sources")
    }()

    private struct Source {
        let name: String
        let lines: [Substring]

        /// What it imports: the module's name, whatever attributes and kinds stand before it.
        var imports: [String] {
            lines.compactMap { line in
                let words = line.split(separator: " ").filter {
                    !$0.hasPrefix("@") && !["public", "package", "internal", "private", "fileprivate"].contains($0)
                }
                guard words.first == "import", words.count > 1 else { return nil }
                let kinds = ["struct", "class", "enum", "protocol", "typealias", "func", "let", "var"]
                let module = kinds.contains(String(words[1])) && words.count > 2 ? words[2] : words[1]
                return module.split(separator: ".").first.map(String.init)
            }
        }

        /// Without comments.
        var code: [Substring] { lines.filter { !$0.drop { $0 == " " }.hasPrefix("//") } }
    }

    private func files(_ room: String) throws -> [Source] {
        let folder = sources.appendingPathComponent(room)
        let found = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        var files: [Source] = []
        for case let file as URL in found where file.pathExtension == "swift" {
            let text = try String(contentsOf: file, encoding: .utf8)
            files.append(Source(name: "\(room)/\(file.lastPathComponent)", lines: text.split(separator: "\n")))
        }
        try #require(!files.isEmpty, "\(room) has files")
        return files
    }

    @Test(
        arguments: [
            ("MsgQueue/Model", []), ("MsgQueue/Rules", []), ("MsgQueue/Scheduling", []),
            ("MsgQueue/Storage", ["CSQLite", "CPlatform", "Glibc"]),
            ("MsgQueue/Engine", ["CPlatform", "Glibc"]), ("MsgQueue/Connectivity", ["CPlatform", "Glibc"]),
        ] as [(String, Set<String>)])
    func each_room_imports_only_what_it_may(room: String, allowed: Set<String>) throws {
        // A room that is not built yet.
        guard FileManager.default.fileExists(atPath: sources.appendingPathComponent(room).path) else {
            #expect(room == "MsgQueue/Connectivity", "\(room) is there")
            return
        }
        for file in try files(room) {
            for module in file.imports { #expect(allowed.contains(module), "\(file.name) imports \(module)") }
        }
    }

    @Test func the_engine_never_imports_the_header_or_a_large_library() throws {
        for file in try files("MsgQueue") {
            for module in ["CMsgQueue", "MsgQueueABI", "Foundation", "FoundationEssentials", "Dispatch", "Synchronization"] {
                #expect(!file.imports.contains(module), "\(file.name) imports \(module)")
            }
        }
    }

    @Test func only_the_store_knows_SQLite() throws {
        for file in try files("MsgQueue") where !file.name.isEmpty {
            guard file.imports.contains("CSQLite") else { continue }
            let storage = try files("MsgQueue/Storage").map(\.name.lastWord)
            #expect(storage.contains(file.name.lastWord), "\(file.name) imports CSQLite")
        }
    }

    @Test func only_the_store_speaks_SQL() throws {
        let words = [
            "SELECT ", "INSERT ", "UPDATE ", "DELETE FROM", "CREATE TABLE", "CREATE INDEX", "PRAGMA ", "BEGIN IMMEDIATE", "sqlite3_",
        ]
        let storage = Set(try files("MsgQueue/Storage").map(\.name.lastWord))
        for file in try files("MsgQueue") + files("MsgQueueABI") where !storage.contains(file.name.lastWord) {
            for line in file.code {
                for word in words { #expect(!line.contains(word), "\(file.name): \(line)") }
            }
        }
    }

    /// No clock, no randomness, no lock, no thread in the pure rooms: what they need of the world is a parameter.
    @Test func the_pure_rooms_ask_nobody() throws {
        let words = [
            ".random(", "SystemRandomNumberGenerator", "clock_gettime", "ContinuousClock", "SuspendingClock", "Date(", "getenv", "print(",
            "pthread_", "Mutex", "Task {", "Task.", "await ", "nonisolated(unsafe)", "static var ",
        ]
        for room in ["MsgQueue/Model", "MsgQueue/Rules", "MsgQueue/Scheduling"] {
            for file in try files(room) {
                for line in file.code {
                    for word in words where line.contains(word) {
                        // A computed property holds nothing.
                        guard !(word == "static var " && line.contains("{")) else { continue }
                        Issue.record("\(file.name): \(line)")
                    }
                }
            }
        }
    }

    @Test func this_test_can_see_an_import() {
        let source = Source(
            name: "x",
            lines: [
                "import Foundation", "@preconcurrency import Dispatch", "  public import struct Glibc.stat", "// import No",
                "let x = 1 // import",
            ])
        #expect(source.imports == ["Foundation", "Dispatch", "Glibc"])
    }
}

extension String {
    /// Behind the last slash.
    fileprivate var lastWord: Substring { split(separator: "/").last ?? "" }
}
