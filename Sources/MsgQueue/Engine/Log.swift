import Glibc

/// Lines for what must not pass in silence: on standard error, unless the variable MSGQUEUE_LOG is "off".
package enum Log {
    private static let isOn = getenv("MSGQUEUE_LOG").map { String(cString: $0) != "off" } ?? true

    package static func warning(_ text: String) {
        guard isOn else { return }
        let line = Array("msgqueue: \(text)\n".utf8)
        // Nothing can be done about a log that cannot be written.
        _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
