/// Writes log lines. May be called with any lock held, because a line is only added to a buffer; see `LogCenter`.
package enum Log {
    /// Writes a line, whose text is made only if lines of this level are.
    @inline(never)
    package static func write(_ level: LogLevel, _ text: @autoclosure () -> String) {
        if isOn(level) { LogCenter.shared.post(level, text()) }
    }

    package static func error(_ text: @autoclosure () -> String) { write(.error, text()) }
    package static func warning(_ text: @autoclosure () -> String) { write(.warning, text()) }
    package static func info(_ text: @autoclosure () -> String) { write(.info, text()) }
    package static func debug(_ text: @autoclosure () -> String) { write(.debug, text()) }

    /// Whether lines of this level are made. An atomic read, without a lock.
    package static func isOn(_ level: LogLevel) -> Bool { LogCenter.shared.isOn(level) }

    /// Sets the least severe level of which lines are made.
    package static func setLevel(_ level: LogLevel) { LogCenter.shared.setLevel(level) }

    /// Creates the shared objects, so that a fork cannot happen while they are created.
    static func prepare() { _ = LogCenter.shared }

    /// Sends log lines to the host's function; nil: to standard error.
    package static func setSink(_ sink: Registration<LogFunction>?) { LogCenter.shared.setSink(sink) }

    /// Returns the next line, truncated to `bytes`, for a host that reads lines itself; nil: there is none, or `bytes` is too small.
    package static func next(bytes: Int) -> LogLine? { LogCenter.shared.next(bytes: bytes) }

    /// Returns a descriptor that is readable while `next` has a line; -1: the system has no free descriptor.
    package static func descriptor() -> Int32 { LogCenter.shared.readingDescriptor() }

    /// Called after a queue was closed. If the process is exiting, waits briefly until log lines are written.
    package static func flushWhileExiting() { LogCenter.shared.flushWhileExiting() }
}

/// Receives one log line at a time.
package typealias LogFunction = @Sendable (LogLevel, String) -> Void
