/// One line of the log.
package struct LogLine: Sendable, Equatable {
    package let level: LogLevel
    package let text: String
    /// Written inside the host's log function, which therefore does not receive it.
    var isFromSink = false
}

/// A bounded buffer of log lines. Lines that are added while it is full are dropped and counted; a line in their place reports their
/// number.
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
        if lost > 0 { lines.append(Self.lossLine(lost)) }
        lost = 0
        lines.append(line)
    }

    /// The next line, which stays in the buffer.
    var first: LogLine? { lines.first ?? (lost > 0 ? Self.lossLine(lost) : nil) }

    mutating func popFirst() -> LogLine? {
        let line = first
        if lines.isEmpty { lost = 0 } else { lines.removeFirst() }
        return line
    }

    /// Returns the line that reports dropped lines.
    static func lossLine(_ lost: Int) -> LogLine {
        LogLine(level: .warning, text: lost == 1 ? "1 log line was lost" : "\(lost) log lines were lost")
    }
}
