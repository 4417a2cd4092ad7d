extension MessageQueue {
    /// Sets the log function of the process, which receives every log line of this library; nil restores the default.
    ///
    /// By default errors and warnings are written to standard error, without blocking and without raising a signal, unless the environment
    /// variable MSGQUEUE_LOG is "off". The function runs on a thread of the library, one line at a time, with no lock held. It may call
    /// every function, also this one. Lines that its own calls cause do not come back to it; they are written as by default.
    ///
    /// A line has no control characters (they are escaped) and at most 2047 bytes. Up to 256 lines wait for a slow function; a line says
    /// how many were lost beyond that.
    public static func setLog(_ sink: (@Sendable (LogLevel, String) -> Void)?) { Log.setSink(sink.map { Registration($0) }) }
}
