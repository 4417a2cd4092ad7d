extension MessageQueue {
    /// Sets the process's log function, which receives every log line of this library; nil restores the default.
    ///
    /// Without a function errors and warnings are written to standard error, never blocking and never raising a signal, unless the
    /// environment variable MSGQUEUE_LOG is "off". The function runs on a thread of the library, one line at a time, with no lock held. It
    /// may call anything, also this. Lines that its calls cause on its thread do not come back to it; they are written as the default does.
    ///
    /// A line has no control characters (they are escaped) and at most 2047 bytes. Up to 256 lines wait for a slow function; a line says how
    /// many were lost beyond that.
    public static func setLog(_ sink: (@Sendable (LogLevel, String) -> Void)?) {
        Log.setSink(sink.map { Registration($0) })
    }
}
