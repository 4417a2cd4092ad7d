/// One line of the log.
package struct LogLine: Sendable, Equatable {
    package let level: LogLevel
    package let text: String
    /// Caused by the host's own log function, which therefore does not receive it.
    var isFromSink = false
}

/// Log lines that wait for whoever takes them. Bounded: what comes while it is full is lost and counted, and a line in its place says how
/// many were.
struct LogBuffer {
    static let capacity = 256

    private var lines: [LogLine] = []
    private var lost = 0

    var isEmpty: Bool { lines.isEmpty && lost == 0 }

    mutating func append(_ line: LogLine) {
        guard lines.count + (lost > 0 ? 2 : 1) <= Self.capacity else {
            lost += 1
            return
        }
        if lost > 0 { lines.append(Self.note(lost: lost)) }
        lost = 0
        lines.append(line)
    }

    /// The next line, which stays.
    var first: LogLine? { lines.first ?? (lost > 0 ? Self.note(lost: lost) : nil) }

    mutating func popFirst() -> LogLine? {
        let line = first
        if lines.isEmpty { lost = 0 } else { lines.removeFirst() }
        return line
    }

    static func note(lost: Int) -> LogLine {
        LogLine(level: .warning, text: lost == 1 ? "1 log line was lost" : "\(lost) log lines were lost")
    }
}
