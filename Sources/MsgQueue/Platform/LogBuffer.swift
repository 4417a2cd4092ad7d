/// One line of the log.
package struct LogLine: Sendable, Equatable {
    package let level: LogLevel
    package let text: String
    /// Written inside the host's log function, which therefore does not receive it.
    var isFromSink = false
}

/// A bounded buffer of log lines, in order. Lines of the level `debug` have room of their own, so that they never displace others. Lines that
/// are added while their room is full are dropped and counted; a line in their place reports their number.
struct LogBuffer {
    /// How many lines of the level `debug` are kept, and how many others.
    static let capacity = 256

    /// The lines that were dropped at one place.
    private struct Loss {
        var count = 0
        var isDebug = true

        /// The line that reports them; nil: there are none.
        var line: LogLine? { count == 0 ? nil : LogBuffer.lossLine(count, level: isDebug ? .debug : .warning) }
    }

    private var lines: [(lost: Loss, line: LogLine)] = []
    /// How many of the lines have the level `debug`.
    private var debugLines = 0
    /// What was dropped after the last line.
    private var lost = Loss()

    var isEmpty: Bool { lines.isEmpty && lost.count == 0 }

    mutating func append(_ line: LogLine) {
        let isDebug = line.level == .debug
        guard (isDebug ? debugLines : lines.count - debugLines) < Self.capacity else {
            lost.count += 1
            lost.isDebug = lost.isDebug && isDebug
            return
        }
        if isDebug { debugLines += 1 }
        lines.append((lost, line))
        lost = Loss()
    }

    /// The next line, which stays in the buffer.
    var first: LogLine? {
        guard let next = lines.first else { return lost.line }
        return next.lost.line ?? next.line
    }

    mutating func popFirst() -> LogLine? {
        let line = first
        if lines.isEmpty {
            lost = Loss()
        } else if lines[0].lost.count > 0 {
            lines[0].lost = Loss()
        } else if lines.removeFirst().line.level == .debug {
            debugLines -= 1
        }
        return line
    }

    /// Returns the line that reports dropped lines.
    static func lossLine(_ lost: Int, level: LogLevel = .warning) -> LogLine {
        LogLine(level: level, text: lost == 1 ? "1 log line was lost" : "\(lost) log lines were lost")
    }
}
