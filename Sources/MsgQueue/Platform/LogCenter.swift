import CPlatform
import Glibc

/// The log of the process. Lines are buffered, and then passed to the host's function, read by the host, or written to standard error. A
/// thread of the library, which holds no lock of a queue, calls the function or writes; it starts with a line and ends when the buffer is
/// empty.
final class LogCenter: @unchecked Sendable {
    static let shared: LogCenter = {
        let center = LogCenter()
        ForkGuard.protect(center.lock) { center.forked() }
        // Runs in exit and quick_exit, while all other threads still exist.
        atexit { LogCenter.shared.exiting() }
        at_quick_exit { LogCenter.shared.exiting() }
        return center
    }()

    /// The total time that an exiting process waits for log lines to be written, in milliseconds.
    private static let exitTimeout: Int64 = 200

    /// Whether lines may be written to standard error.
    private let isDefaultOn: Bool
    /// The raw value of the least severe level of which lines are made. Accessed without the lock.
    private let threshold = UnsafeMutablePointer<Int64>.allocate(capacity: 1)
    private let lock = Mutex()

    // Protected by the lock, which is never held during a call of the host's function or a write:
    private var buffer = LogBuffer()
    private var sink: Registration<LogFunction>?
    /// The host reads the lines itself.
    private var isRead = false
    /// The number of changes of the destination. A thread of an earlier generation takes no more lines; it may hang in the host's function.
    private var generation = 0
    private var isRunning = false
    /// The number of lines that could not be written to standard error, and whether the last one was written in part.
    private var unwritten = 0
    private var isCut = false
    /// An eventfd, readable while there is a line for a host that reads.
    private var descriptor: Int32 = -1
    private var isSignalled = false
    /// The monotonic time until which an exiting process waits.
    private var exitDeadline: Int64?
    private let idle = Condition()

    private init() {
        let word = getenv("MSGQUEUE_LOG").map { String(cString: $0) }
        isDefaultOn = word != "off"
        let level: LogLevel = word == "debug" ? .debug : .info
        threshold.initialize(to: Int64(level.rawValue))
    }

    // MARK: The level

    func isOn(_ level: LogLevel) -> Bool { Int64(level.rawValue) <= platform_atomic_load(threshold) }

    func setLevel(_ level: LogLevel) { platform_atomic_store(threshold, Int64(level.rawValue)) }

    // MARK: Adding lines

    func post(_ level: LogLevel, _ text: String) {
        let line = LogLine(level: level, text: LogText.line(text), isFromSink: ThreadContext.current.isInLogSink)
        lock.withLock {
            guard isRead || isForSink(line) || isForStandardError(line) else { return }
            buffer.append(line)
            notifyReader()
        }
    }

    private func isForSink(_ line: LogLine) -> Bool { sink != nil && !line.isFromSink }

    /// By default errors and warnings, and at the level `debug` everything that no function of the host receives.
    private func isForStandardError(_ line: LogLine) -> Bool {
        isDefaultOn && (line.level == .error || line.level == .warning || (sink == nil && isOn(.debug)))
    }

    /// Signals a host that reads lines, or starts the thread.
    private func notifyReader() {
        signal()
        guard !isRead, !isRunning, !buffer.isEmpty else { return }
        let mine = generation
        // If no thread can be created, the next line tries again.
        guard let thread = EngineThread("msgq-log", { [self] in run(mine) }) else { return }
        thread.detach()
        isRunning = true
    }

    // MARK: Delivering lines

    private func run(_ mine: Int) {
        lock.lock()
        while generation == mine, let line = buffer.popFirst() {
            var called = line.isFromSink ? nil : sink
            if called != nil { callSink(&called, line) } else if isForStandardError(line) { write(line) }
        }
        if generation == mine {
            isRunning = false
            idle.broadcast()
        }
        lock.unlock()
    }

    /// Calls the host's function, with the lock released meanwhile. `called` may be the last reference to it. What it captures may log when
    /// it is deallocated, so that also happens without the lock.
    private func callSink(_ called: inout Registration<LogFunction>?, _ line: LogLine) {
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

    /// Writes a line to standard error, with the lock released meanwhile.
    private func write(_ line: LogLine) {
        let missed = unwritten
        unwritten = 0
        var text = isCut ? "\n" : ""
        if missed > 0 { text += Self.formatted(LogBuffer.lossLine(missed)) }
        text += Self.formatted(line)
        let bytes = Array(text.utf8)
        lock.unlock()
        let count = bytes.withUnsafeBytes { platform_write_error($0.baseAddress, $0.count) }
        lock.lock()
        if count > 0 { isCut = count < bytes.count }
        if count < bytes.count { unwritten += missed + 1 }
    }

    private static func formatted(_ line: LogLine) -> String { "msgqueue: \(line.level): \(line.text)\n" }

    // MARK: The destination

    func setSink(_ new: Registration<LogFunction>?) {
        let (old, release) = lock.withLock {
            let old = sink
            sink = new
            isRead = false
            destinationChanged()
            notifyReader()
            return (old, old?.retire())
        }
        // As in `callSink`, the old registration is released without the lock.
        withExtendedLifetime(old) { release?() }
    }

    private func destinationChanged() {
        generation += 1
        isRunning = false
        idle.broadcast()
    }

    /// Makes the host the reader of the lines. Returns false when a log function is set, which receives them.
    private func beginReading() -> Bool {
        guard sink == nil else { return false }
        if !isRead {
            isRead = true
            destinationChanged()
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

    /// Makes the descriptor readable if there are lines to read, and unreadable if not.
    private func signal() {
        let isDue = isRead && !buffer.isEmpty
        guard descriptor >= 0, isDue != isSignalled else { return }
        isSignalled = isDue
        var one: UInt64 = 1
        _ = isDue ? Glibc.write(descriptor, &one, 8) : read(descriptor, &one, 8)
    }

    // MARK: Exit and fork

    private func exiting() {
        lock.withLock { exitDeadline = Ports.system.mono().addingClamped(Self.exitTimeout) }
        flushWhileExiting()
    }

    func flushWhileExiting() {
        // The host's log function itself calls exit or closes a queue: waiting for it would deadlock.
        guard !ThreadContext.current.isInLogSink else { return }
        lock.withLock {
            guard let exitDeadline else { return }
            while isRunning, idle.wait(lock, until: exitDeadline) {}
        }
    }

    /// Runs in a forked child, directly after the fork, with the lock held: the parent writes its lines, and its threads do not exist here.
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
