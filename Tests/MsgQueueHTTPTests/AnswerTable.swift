import Foundation

/// The table of answers, `Tests/fixtures/http-answers.txt`.
enum AnswerTable {
    /// The outcome of each answer, and its bytes.
    static func rows() throws -> [(outcome: String, answer: [UInt8])] {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("fixtures/http-answers.txt")
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").filter { !$0.hasPrefix("#") }.map { line in
            let fields = line.split(separator: "\t", maxSplits: 1, omittingEmptySubsequences: false)
            return (String(fields[0]), unescaped(fields.dropFirst().first ?? ""))
        }
    }

    /// An ending as the table writes it.
    static func outcome(_ result: Ending) -> String {
        guard result.status != .sent, let attempt = result.attempt else { return "\(result.status)" }
        let kind = attempt.kind.map { "\($0)" } ?? "none"
        let name = kind.reduce(into: "") { $0 += $1.isUppercase ? "_\($1.lowercased())" : String($1) }
        // Without a status it must count as perhaps arrived.
        let code = attempt.code.map { " \($0)" } ?? (attempt.arrival == .perhaps ? "" : " not sent")
        return "\(result.status == .queued ? "retried" : "failed") \(name)\(code)"
    }

    /// Replaces \\r, \\n and \\xHH by their bytes.
    private static func unescaped(_ text: Substring) -> [UInt8] {
        var (bytes, rest) = ([UInt8](), Array(text.utf8)[...])
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let letter = rest.popFirst() else {
                bytes.append(byte)
                continue
            }
            guard letter == UInt8(ascii: "x") else {
                bytes.append(letter == UInt8(ascii: "r") ? 13 : 10)
                continue
            }
            bytes.append(UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) ?? 0)
            rest = rest.dropFirst(2)
        }
        return bytes
    }
}
