import Foundation
import Testing

/// Checks the text of the C header.
@Suite struct HeaderTests {
    private let root: URL = {
        var root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root
    }()

    private func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    @Test func no_line_of_the_header_is_longer_than_100_columns() throws {
        let lines = try text("Include/msgqueue.h").split(separator: "\n", omittingEmptySubsequences: false)
        for (number, line) in zip(1..., lines) { #expect(line.count <= 100, "line \(number) has \(line.count)") }
    }

    @Test func the_header_begins_with_the_C_program_of_the_README() throws {
        let readme = try text("README.md")
        let program = try #require(readme.firstMatch(of: /```c\n((?s).*?)```/)).1
        let header = try text("Include/msgqueue.h")
        let place = try #require(header.range(of: program), "the header does not have the program of the README")
        #expect(place.lowerBound < header.range(of: "#ifndef MSGQUEUE_H")?.lowerBound ?? header.startIndex)
    }

    /// The contents list names every section, in order.
    @Test func the_contents_list_of_the_header_names_its_sections() throws {
        let lines = try text("Include/msgqueue.h").split(separator: "\n")
        let sections = lines.compactMap { $0.wholeMatch(of: #/(?:/\*| \*) -{10,} (\d+\. [^*]+?)(?: \*/)?/#)?.1 }
        let listed = lines.compactMap { $0.wholeMatch(of: #/ \* {3,4}(\d+\. [\w, ]+?)(?: {2,}.*)?/#)?.1 }
        #expect(sections == listed)
        #expect(sections.count == 18)
    }
}
