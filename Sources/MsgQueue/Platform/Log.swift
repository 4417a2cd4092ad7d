/// What must not pass in silence. May be called under any lock: a line is only put into a buffer; see `LogCenter` for where it goes.
package enum Log {
    package static func write(_ level: LogLevel, _ text: String) { LogCenter.shared.post(level, text) }
    package static func error(_ text: String) { LogCenter.shared.post(.error, text) }
    package static func warning(_ text: String) { LogCenter.shared.post(.warning, text) }
    package static func info(_ text: String) { LogCenter.shared.post(.info, text) }

    /// Makes what all of this needs, so that a fork never happens in the middle of that.
    static func prepare() { _ = LogCenter.shared }

    /// Sends lines to the host's function; nil: to standard error.
    package static func setSink(_ sink: Registration<LogFunction>?) { LogCenter.shared.setSink(sink) }

    /// The next line, cut to so many bytes, for a host that reads lines itself; nil: none, or no room.
    package static func next(bytes: Int) -> LogLine? { LogCenter.shared.next(bytes: bytes) }

    /// Readable while there is a line for `next`; -1: the system has no descriptor left.
    package static func descriptor() -> Int32 { LogCenter.shared.readingDescriptor() }

    /// After a queue was closed: while the process exits, waits a moment for lines to be written.
    package static func flushWhileExiting() { LogCenter.shared.flushWhileExiting() }
}

/// Receives one log line at a time.
package typealias LogFunction = @Sendable (LogLevel, String) -> Void
