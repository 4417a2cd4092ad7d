import CPlatform
import Glibc

/// The log of the whole process: lines wait in a buffer until they reach the host's function, a host that reads them itself, or standard
/// error. The first and the last are served by a thread of this library that holds no lock of a queue; it is started by a line and ends
/// when there are no more.
final class LogCenter: @unchecked Sendable {
    static let shared: LogCenter = {
        let center = LogCenter()
        ForkGuard.protect(center.lock) { center.forked() }
        // Run by exit and quick_exit, with all other threads still there.
        atexit { LogCenter.shared.exiting() }
        at_quick_exit { LogCenter.shared.exiting() }
        return center
    }()

    /// How long an exiting process waits for lines to be written, in all: milliseconds.
    private static let exitPatience: Int64 = 200

    /// Whether standard error is written to.
    private let isDefaultOn = getenv("MSGQUEUE_LOG").map { String(cString: $0) != "off" } ?? true
    private let lock = Mutex()

    // Under the lock, which is never held while anybody else's code runs or anything is written:
    private var buffer = LogBuffer()
    private var sink: Registration<LogFunction>?
    /// The host reads lines itself.
    private var isRead = false
    /// Counts changes of where lines go. A thread of an earlier one takes no further line; it may be stuck in the host's function.
    private var generation = 0
    private var isRunning = false
    /// Lines that standard error did not take, and whether it took a part of the last one.
    private var unwritten = 0
    private var isCut = false
    /// Readable while there is a line for a host that reads.
    private var descriptor: Int32 = -1
    private var isSignalled = false
    /// Until when an exiting process waits (monotonic).
    private var exitDeadline: Int64?
    private let idle = Condition()

    // MARK: Lines in

    func post(_ level: LogLevel, _ text: String) {
        let line = LogLine(level: level, text: LogText.line(text), isFromSink: ThreadContext.current.isInLogSink)
        lock.withLock {
            guard isRead || isForSink(line) || isForStandardError(line) else { return }
            buffer.append(line)
            hand()
        }
    }

    private func isForSink(_ line: LogLine) -> Bool { sink != nil && !line.isFromSink }

    private func isForStandardError(_ line: LogLine) -> Bool { isDefaultOn && (line.level == .error || line.level == .warning) }

    /// Lets whoever takes lines know of them.
    private func hand() {
        signal()
        guard !isRead, !isRunning, !buffer.isEmpty else { return }
        let mine = generation
        // Without a thread the lines wait for the next one, which tries again.
        guard let thread = EngineThread("msgq-log", { [self] in run(mine) }) else { return }
        thread.detach()
        isRunning = true
    }

    // MARK: Lines out

    private func run(_ mine: Int) {
        lock.lock()
        while generation == mine, let line = buffer.popFirst() {
            var called = line.isFromSink ? nil : sink
            if called != nil { tell(&called, line) } else if isForStandardError(line) { write(line) }
        }
        if generation == mine {
            isRunning = false
            idle.broadcast()
        }
        lock.unlock()
    }

    /// With the lock given up meanwhile. This may be the last reference: what the function holds may log when it goes, so that happens
    /// without the lock, too.
    private func tell(_ called: inout Registration<LogFunction>?, _ line: LogLine) {
        called?.enter()
        lock.unlock()
        let context = ThreadContext.current
        context.isInLogSink = true
        called?.function(line.level, line.text)
        lock.lock()
        let release = called?.leave()
        lock.unlock()
        release?()
        called = nil
        context.isInLogSink = false
        lock.lock()
    }

    /// With the lock given up meanwhile.
    private func write(_ line: LogLine) {
        let missed = unwritten
        unwritten = 0
        var text = isCut ? "\n" : ""
        if missed > 0 { text += Self.formatted(LogBuffer.note(lost: missed)) }
        text += Self.formatted(line)
        let bytes = Array(text.utf8)
        lock.unlock()
        let count = bytes.withUnsafeBytes { platform_write_error($0.baseAddress, $0.count) }
        lock.lock()
        if count > 0 { isCut = count < bytes.count }
        if count < bytes.count { unwritten += missed + 1 }
    }

    private static func formatted(_ line: LogLine) -> String {
        "msgqueue: \(line.level == .error ? "error" : "warning"): \(line.text)\n"
    }

    // MARK: Where lines go

    func setSink(_ new: Registration<LogFunction>?) {
        let (old, release) = lock.withLock {
            let old = sink
            sink = new
            isRead = false
            redirected()
            hand()
            return (old, old?.retire())
        }
        // As in `tell`, the old one goes without the lock.
        withExtendedLifetime(old) { release?() }
    }

    private func redirected() {
        generation += 1
        isRunning = false
        idle.broadcast()
    }

    /// False: a function of the host's is set, and receives the lines.
    private func beginReading() -> Bool {
        guard sink == nil else { return false }
        if !isRead {
            isRead = true
            redirected()
        }
        return true
    }

    func next(bytes: Int) -> LogLine? {
        lock.withLock {
            guard beginReading(), let line = buffer.first else { return nil }
            let text = LogText.prefix(line.text, bytes: bytes)
            guard !text.isEmpty else { return nil }
            _ = buffer.popFirst()
            signal()
            return LogLine(level: line.level, text: text)
        }
    }

    func readingDescriptor() -> Int32 {
        lock.withLock {
            _ = beginReading()
            if descriptor < 0 { descriptor = platform_eventfd() }
            signal()
            return descriptor
        }
    }

    /// Makes the descriptor readable or not.
    private func signal() {
        let isDue = isRead && !buffer.isEmpty
        guard descriptor >= 0, isDue != isSignalled else { return }
        isSignalled = isDue
        var one: UInt64 = 1
        _ = isDue ? Glibc.write(descriptor, &one, 8) : read(descriptor, &one, 8)
    }

    // MARK: The end of the process, and its children

    private func exiting() {
        lock.withLock { exitDeadline = Ports.system.mono().addingClamped(Self.exitPatience) }
        flushWhileExiting()
    }

    func flushWhileExiting() {
        // The host's function that exits, or closes a queue, is waited for by nobody.
        guard !ThreadContext.current.isInLogSink else { return }
        lock.withLock {
            guard let exitDeadline else { return }
            while isRunning, idle.wait(lock, until: exitDeadline) {}
        }
    }

    /// In a forked child, right after the fork, with the lock held: the parent's lines are the parent's, and its threads are not here.
    private func forked() {
        buffer = LogBuffer()
        sink = sink?.copy()
        generation += 1
        isRunning = false
        (unwritten, isCut, exitDeadline) = (0, false, nil)
        if descriptor >= 0 { close(descriptor) }
        (descriptor, isSignalled) = (-1, false)
        idle.reset()
    }
}
