import Glibc

/// The connection of one client: its buffers and times. Used by the thread of the control socket alone.
final class ControlClient {
    private static let chunk = 64 << 10

    let number: Int
    let descriptor: ControlDescriptor
    private let lineCeiling: Int
    private var input: [UInt8] = []
    /// The first byte of `input` that no line was made of, and the first that was not searched for the end of a line.
    private var (inputStart, searched) = (0, 0)
    private var output: [UInt8] = []
    private var outputStart = 0
    /// The bytes of events that wait to be read, at most.
    private(set) var unreadEvents = 0
    /// When the incomplete line began (monotonic); nil: there is none.
    private var lineBegan: Int64?
    /// When the client last read something, or had nothing to read (monotonic).
    private var lastRead: Int64
    /// The client sends nothing more.
    private(set) var isInputEnded = false
    /// Nothing more is read of the client, and it is disconnected when it has read everything.
    private(set) var isEnding = false
    /// The connection is broken or complete.
    private(set) var isClosed = false
    /// The kinds of event that the client subscribed to; nil: none.
    var subscription: Set<EventName>? { didSet { (interval, held, heldUntil) = (0, HeldEvents(), 0) } }
    /// The shortest time between two deliveries of events, in milliseconds.
    var interval: Int64 = 0
    /// Events that are delivered together, at this time (monotonic).
    var held = HeldEvents()
    var heldUntil: Int64 = 0
    /// When the client last sent something, or an answer was sent to it (monotonic).
    private var lastUse: Int64
    /// Calls whose answers follow later.
    var pending = 0

    init(_ number: Int, _ descriptor: ControlDescriptor, lineCeiling: Int, _ now: Int64) {
        (self.number, self.descriptor, self.lineCeiling, lastRead) = (number, descriptor, lineCeiling, now)
        lastUse = now
    }

    var unread: Int { output.count - outputStart }

    // MARK: Input

    /// Reads what has arrived, at most 64 KiB.
    func receive(_ now: Int64) {
        guard !isInputEnded, !isEnding, !isClosed else { return }
        var count = 0
        let start = input.count
        input.append(contentsOf: repeatElement(0, count: Self.chunk))
        input.withUnsafeMutableBytes { buffer in
            guard let base = buffer.baseAddress else { return }
            count = recv(descriptor.number, base + start, Self.chunk, 0)
        }
        let code = errno
        input.removeSubrange((start + max(count, 0))...)
        if count == 0 { isInputEnded = true }
        if count < 0, code != EAGAIN, code != EINTR { isClosed = true }
        if count > 0 {
            lastUse = now
            if lineBegan == nil { lineBegan = now }
        }
    }

    /// Removes and returns the next complete line, without its end.
    func nextLine(_ now: Int64) -> [UInt8]? {
        guard let end = input[searched...].firstIndex(of: 0x0a) else {
            searched = input.count
            compact()
            return nil
        }
        let line = Array(input[inputStart..<end])
        (inputStart, searched) = (end + 1, end + 1)
        lineBegan = inputStart < input.count ? now : nil
        return line
    }

    var hasLine: Bool { !isEnding && input[searched...].contains(0x0a) }

    /// Whether the incomplete line, or the line before it, is longer than permitted.
    func isTooLong(_ line: [UInt8]? = nil) -> Bool { (line?.count ?? (searched - inputStart)) > lineCeiling }

    /// Notes that the server does not read what the client sends: the time of an incomplete line does not pass.
    func inputWaits(_ now: Int64) { if lineBegan != nil { lineBegan = now } }

    private func compact() {
        guard inputStart > 0 else { return }
        input.removeSubrange(..<inputStart)
        searched -= inputStart
        inputStart = 0
    }

    // MARK: Output

    func send(_ line: [UInt8], _ now: Int64) {
        guard !isEnding, !isClosed else { return }
        lastUse = now
        if unread == 0 { lastRead = now }
        output += line
    }

    /// Sends an event, or ends the connection if more than `room` bytes of events would wait.
    func send(event line: [UInt8], room: Int, _ now: Int64) {
        if unreadEvents > room / 2 { flush(now) }
        guard unreadEvents + line.count <= room else { return end(ControlLine.unsubscribed, now) }
        send(line, now)
        unreadEvents += line.count
    }

    /// Writes what the client can take.
    func flush(_ now: Int64) {
        guard unread > 0, !isClosed else { return }
        let count = output.withUnsafeBytes { buffer -> Int in
            guard let base = buffer.baseAddress else { return 0 }
            return Glibc.send(descriptor.number, base + outputStart, unread, Int32(MSG_NOSIGNAL))
        }
        if count < 0 {
            if errno != EAGAIN, errno != EINTR { isClosed = true }
            return
        }
        if count > 0 { lastRead = now }
        outputStart += count
        unreadEvents = min(unreadEvents, unread)
        if outputStart == output.count {
            (output, outputStart) = ([], 0)
        } else if outputStart > 1 << 20 {
            output.removeSubrange(..<outputStart)
            outputStart = 0
        }
    }

    // MARK: The end

    /// Sends a last line and disconnects when it was read.
    func end(_ line: [UInt8], _ now: Int64) {
        send(line, now)
        isEnding = true
        subscription = nil
    }

    func close() { isClosed = true }

    /// The peer is gone: it reads nothing more.
    func peerIsGone() {
        (output, outputStart) = ([], 0)
        subscription = nil
        if isEnding || (isInputEnded && !hasLine) { isClosed = true }
    }

    /// Whether nothing is left to do for the client.
    var isComplete: Bool { unread == 0 && (isEnding || (isInputEnded && !hasLine && pending == 0 && subscription == nil)) }

    /// Since when the client is idle (monotonic): it has no subscription and no request under way. nil: it is not.
    var idleSince: Int64? {
        subscription == nil && pending == 0 && unread == 0 && lineBegan == nil && !hasLine && !isEnding ? lastUse : nil
    }

    /// When the client's next time limit passes (monotonic); Int64.max: none.
    func deadline(_ limits: ControlLimits) -> Int64 {
        min(lineDeadline(limits), answerDeadline(limits), held.isEmpty ? Int64.max : heldUntil)
    }

    func lineDeadline(_ limits: ControlLimits) -> Int64 {
        guard let lineBegan, !isEnding, !isInputEnded, !hasLine, unread <= limits.answerRoom else { return Int64.max }
        return lineBegan.addingClamped(limits.lineTime)
    }

    func answerDeadline(_ limits: ControlLimits) -> Int64 { unread > 0 ? lastRead.addingClamped(limits.answerTime) : Int64.max }
}
