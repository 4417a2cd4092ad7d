import Foundation
import Testing

/// What the layers import and contain. `Tests/check_layers.py` compiles each with nothing but the layers below it.
@Suite struct LayerTests {
    /// Above this file: House, MsgQueueTests, Tests, the package.
    private let sources: URL = {
        var root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root.appendingPathComponent("Sources")
    }()

    private struct Source {
        let name: String
        /// The layer.
        var folder: String?
        let lines: [Substring]

        /// The imported modules, without attributes and kinds of imports.
        var imports: [String] {
            lines.compactMap { line in
                guard line.contains("import ") else { return nil }
                let words = line.split(separator: " ").filter {
                    !$0.hasPrefix("@") && !["public", "package", "internal", "private", "fileprivate"].contains($0)
                }
                guard words.first == "import", words.count > 1 else { return nil }
                let kinds = ["struct", "class", "enum", "protocol", "typealias", "func", "let", "var"]
                let module = kinds.contains(String(words[1])) && words.count > 2 ? words[2] : words[1]
                return module.split(separator: ".").first.map(String.init)
            }
        }

        /// The lines without comments.
        var code: [Substring] { lines.filter { !$0.drop { $0 == " " }.hasPrefix("//") } }

        /// The text without comments and string literals.
        var text: String {
            code.map { line in
                // Most lines have neither; a search for a pattern takes much longer.
                guard line.utf8.contains(UInt8(ascii: "\"")) || line.utf8.contains(UInt8(ascii: "/")) else { return line }
                return line.replacing(/"(?:\\.|[^"\\])*"/, with: "").replacing(/\/\/.*/, with: "")
            }.joined(separator: "\n")
        }
    }

    private func files(_ layer: String) throws -> [Source] {
        let folder = sources.appendingPathComponent(layer)
        let found = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        var files: [Source] = []
        for case let file as URL in found where file.pathExtension == "swift" {
            let text = try String(contentsOf: file, encoding: .utf8)
            let folder = file.deletingLastPathComponent().lastPathComponent
            files.append(Source(name: "\(layer)/\(file.lastPathComponent)", folder: folder, lines: text.split(separator: "\n")))
        }
        try #require(!files.isEmpty, "\(layer) has files")
        return files
    }

    @Test(
        arguments: [
            ("MsgQueue/API", []), ("MsgQueue/Model", []), ("MsgQueue/Rules", []), ("MsgQueue/Scheduling", []),
            ("MsgQueue/Wire", []), ("MsgQueue/Control", ["CPlatform", "Glibc"]),
            ("MsgQueue/Async", ["Glibc"]),
            ("MsgQueue/Platform", ["CPlatform", "Glibc"]), ("MsgQueue/Storage", ["CSQLite", "CPlatform", "Glibc"]),
            ("MsgQueue/Engine", ["CPlatform", "Glibc"]), ("MsgQueue/Connectivity", ["CPlatform", "Glibc"]),
        ] as [(String, Set<String>)])
    func each_layer_imports_only_allowed_modules(layer: String, allowed: Set<String>) throws {
        for file in try files(layer) {
            for module in file.imports { #expect(allowed.contains(module), "\(file.name) imports \(module)") }
        }
    }

    /// What is sent next, the explanations, the state and the prompt ask `Eligibility.swift`.
    @Test(
        arguments: [
            ("the store refuses writes", "mono (<|>=) storageRetryAt"), ("a receiver delays the queue", "holds\\.receiverHold\\("),
            ("the pause after an outcome offline", "holds\\.offlineHold\\("),
            ("the connection is not stable", "holds\\.settling\\(now\\) != nil"),
            ("a metered link", "[^.]network\\.metered.*nmeteredOnly|nmeteredOnly.*[^.]network\\.metered"),
            ("a failed message blocks", "block < |\\$0 < sequence"),
            ("the batch of automatic sending", "budget (>|<=) 0"), ("the background", "!isInBackground \\|\\|"),
            ("there is no transport", "!hasTransport \\{ return"),
        ])
    func X15_each_condition_of_an_attempt_is_read_in_one_file(condition: String, pattern: String) throws {
        let expression = try Regex(pattern)
        for file in try files("MsgQueue/Scheduling") {
            let isRead = file.text.contains(expression)
            #expect(isRead == file.name.hasSuffix("/Eligibility.swift"), "\(file.name) reads whether \(condition): \(isRead)")
        }
    }

    @Test func the_engine_never_imports_the_header_or_a_large_library() throws {
        for file in try files("MsgQueue") {
            for module in ["CMsgQueue", "MsgQueueABI", "Foundation", "FoundationEssentials", "Dispatch", "Synchronization"] {
                #expect(!file.imports.contains(module), "\(file.name) imports \(module)")
            }
        }
    }

    /// Only the transports use a library of the system for HTTP; nothing else uses them.
    @Test func only_MsgQueueHTTP_uses_libcurl_and_only_MsgQueueFoundation_uses_Foundation() throws {
        for target in ["MsgQueue", "MsgQueueABI", "MsgQueueHTTP", "MsgQueueOutbox", "MsgQueueSimulation"] {
            for file in try files(target) {
                for module in file.imports {
                    #expect(!module.hasPrefix("Foundation"), "\(file.name) imports \(module)")
                    let isHTTP = module == "CCurl" || module == "MsgQueueHTTP"
                    #expect(!isHTTP || target == "MsgQueueHTTP", "\(file.name) imports \(module)")
                }
            }
        }
        for file in try files("MsgQueueFoundation") {
            for module in file.imports { #expect(["FoundationEssentials", "Foundation", "MsgQueue"].contains(module), "\(file.name)") }
        }
        for file in try files("MsgQueueHTTP") {
            for module in file.imports { #expect(["CCurl", "Glibc", "MsgQueue"].contains(module), "\(file.name) imports \(module)") }
        }
        for file in try files("MsgQueueOutbox") {
            for module in file.imports { #expect(["CSQLite", "MsgQueue"].contains(module), "\(file.name) imports \(module)") }
        }
    }

    /// "A port" in Sources/README.md names the files that use Linux beyond the C library, or their folders.
    @Test func the_files_that_a_port_must_change_are_listed() throws {
        let page = try String(contentsOf: sources.appendingPathComponent("README.md"), encoding: .utf8)
        let section = try #require(page.split(separator: "\n## ").first { $0.hasPrefix("A port\n") })
        let names = section.matches(of: /`([\w\/.]+)`/).map { String($0.1) }
        for name in names where name.contains("/") && name.hasSuffix(".swift") {
            #expect(FileManager.default.fileExists(atPath: sources.appendingPathComponent("MsgQueue/\(name)").path), "\(name)")
        }
        for file in try files("MsgQueue") where file.imports.contains("CPlatform") {
            let folder = try #require(file.folder)
            let isListed = names.contains("\(folder)/\(file.name.lastWord)") || names.contains("\(folder)/")
            #expect(isListed, "\(folder)/\(file.name.lastWord)")
        }
    }

    @Test func only_the_store_uses_SQLite() throws {
        for file in try files("MsgQueue") where !file.name.isEmpty {
            guard file.imports.contains("CSQLite") else { continue }
            let storage = try files("MsgQueue/Storage").map(\.name.lastWord)
            #expect(storage.contains(file.name.lastWord), "\(file.name) imports CSQLite")
        }
    }

    @Test func only_the_store_contains_SQL() throws {
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

    /// No clock, no randomness, no lock, no thread in the pure layers: such values are parameters.
    @Test func the_pure_layers_have_no_effects() throws {
        let words = [
            ".random(", "SystemRandomNumberGenerator", "clock_gettime", "ContinuousClock", "SuspendingClock", "Date(", "getenv", "print(",
            "pthread_", "Mutex", "Task {", "Task.", "await ", "nonisolated(unsafe)", "static var ",
        ]
        for layer in ["MsgQueue/Model", "MsgQueue/Rules", "MsgQueue/Scheduling", "MsgQueue/Wire"] {
            for file in try files(layer) {
                for line in file.code {
                    for word in words where line.contains(word) {
                        // A computed property stores nothing.
                        guard !(word == "static var " && line.contains("{")) else { continue }
                        Issue.record("\(file.name): \(line)")
                    }
                }
            }
        }
    }

    @Test func what_is_public_is_in_MessageQueue() throws {
        for file in try files("MsgQueue") {
            let lines = file.text.split(separator: "\n")
            for line in lines where line.hasPrefix("public ") {
                #expect(line.hasPrefix("public final class MessageQueue:"), "\(file.name)")
            }
            let extended = lines.reduce(into: (public: false, name: "")) { state, line in
                if line.hasPrefix("extension "), let type = line.firstMatch(of: /^extension ([\w.]+)/)?.1 { state.name = String(type) }
                if line == "}" { state.name = "" }
                let isOutside = !state.name.isEmpty && !state.name.hasPrefix("MessageQueue") && state.name != "Set"
                if isOutside, line.hasPrefix("    public ") { state.public = true }
            }
            #expect(!extended.public, "\(file.name) has something public outside of MessageQueue")
        }
    }

    /// Limits the size of types, in all their extensions together.
    @Test func no_type_of_the_engine_has_more_than_600_lines() throws {
        var lines: [Substring: Int] = [:]
        for file in try files("MsgQueue/Engine") {
            var type: Substring?
            for line in file.lines {
                if let begun = Self.type(begunBy: line) { type = begun }
                if let type { lines[type, default: 0] += 1 }
                if line.hasPrefix("}") { type = nil }
            }
        }
        try #require((lines["Engine"] ?? 0) > 100 && (lines["Driver"] ?? 0) > 100)
        for (type, count) in lines { #expect(count <= 600, "\(type) has \(count) lines") }
    }

    /// Returns the type that a line at the beginning of a declaration declares or extends.
    private static func type(begunBy line: Substring) -> Substring? {
        guard let first = line.first, first.isLetter || first == "@" else { return nil }
        return line.firstMatch(
            of: /^(?:(?:@\w+|public|package|private|fileprivate|final|indirect) )*(?:struct|class|enum|protocol|extension) (\w+)/)?.1
    }

    @Test func this_test_finds_imports() {
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
    /// The part after the last slash.
    fileprivate var lastWord: Substring { split(separator: "/").last ?? "" }
}
