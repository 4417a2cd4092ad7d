extension MessageQueue {
    /// Sets the log function of the process, which receives every log line of this library; nil restores the default.
    ///
    /// By default errors and warnings are written to standard error, without blocking and without raising a signal, unless the environment
    /// variable MSGQUEUE_LOG is "off". The function runs on a thread of the library, one line at a time, with no lock held. It may call
    /// every function, also this one. Lines that its own calls cause do not come back to it; they are written as by default.
    ///
    /// A line has no control characters (they are escaped) and at most 2047 bytes. Up to 256 lines, and as many of the level `debug`, wait
    /// for a slow function; a line says how many were lost beyond that.
    public static func setLog(_ sink: (@Sendable (LogLevel, String) -> Void)?) { Log.setSink(sink.map { Registration($0) }) }

    /// Sets the least severe level of which this library makes lines, for the whole process; by default `info`.
    ///
    /// With `debug` every step of a message and of a queue is one line: a message is enqueued, an attempt begins and ends (with the reason),
    /// a prompt is raised or withdrawn, connectivity changes, a drain starts and finishes. Such lines have ids, conversations, sizes and the
    /// texts of outcomes; never a body, metadata or a preview. Without a log function they are written to standard error. The environment variable
    /// MSGQUEUE_LOG=debug begins with this level. The other levels cost nothing measurable, because lines are made only if they are wanted.
    public static func setLogLevel(_ level: LogLevel) { Log.setLevel(level) }
}
