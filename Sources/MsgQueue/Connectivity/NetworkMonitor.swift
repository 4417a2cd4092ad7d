import CPlatform
import Glibc

/// Reads connectivity from the kernel (rtnetlink). One socket receives notifications of changes; another one requests the full state after
/// each. So lost notifications, for example after a socket overrun, do not matter.
final class NetworkMonitor {
    /// The socket of notifications; readable after a change.
    let descriptor: Int32
    private let requestSocket: Int32
    private var sequence: UInt32 = 0
    /// How often the state is read at most, while it changes.
    private static let readings = 10
    private var buffer = [UInt8](repeating: 0, count: 1 << 16)
    /// The last request failed, so the state is unknown.
    private(set) var isStale = false

    init() throws(QueueError) {
        let groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE
        descriptor = try Self.open(groups: UInt32(groups))
        do throws(QueueError) { requestSocket = try Self.open(groups: 0) } catch {
            close(descriptor)
            throw error
        }
        // The kernel answers at once. The timeout is a precaution.
        var timeout = timeval(tv_sec: 0, tv_usec: 500_000)
        setsockopt(requestSocket, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit {
        close(descriptor)
        close(requestSocket)
    }

    private static func open(groups: UInt32) throws(QueueError) -> Int32 {
        let type = Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue)
        let socket = socket(AF_NETLINK, type, NETLINK_ROUTE)
        guard socket >= 0 else { throw failure(to: "open a netlink socket") }
        var address = sockaddr_nl()
        address.nl_family = sa_family_t(AF_NETLINK)
        address.nl_groups = groups
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(socket, $0, socklen_t(MemoryLayout<sockaddr_nl>.size)) }
        }
        guard bound == 0 else {
            let error = failure(to: "subscribe to network changes")
            close(socket)
            throw error
        }
        return socket
    }

    private static func failure(to action: String) -> QueueError {
        let code = errno
        let isForbidden = code == EPERM || code == EACCES || code == EPROTONOSUPPORT || code == EAFNOSUPPORT
        return QueueError(isForbidden ? .permission : .storage, "failed to \(action): \(Posix.describe(code))")
    }

    /// Reads the notifications and returns the new state; nil: nothing relevant changed, or the state is unknown (`isStale`).
    func readChange() -> Network? {
        guard receiveNotifications() || isStale else { return nil }
        do throws(QueueError) { return try query() } catch {
            Log.warning("failed to read the state of the network: \(error.detail)")
            return nil
        }
    }

    /// Reads all notifications. Returns whether one of them is relevant.
    private func receiveNotifications() -> Bool {
        var isRelevant = false
        // Bounded, so that many notifications cannot keep this thread busy. The others are read the next time.
        for _ in 0..<1_000 {
            switch receive(descriptor, Int32(MSG_DONTWAIT)) {
            case .messages(let messages): isRelevant = isRelevant || messages.contains { NetworkTable.isRelevant($0.message) }
            case .overrun: isRelevant = true
            case .nothing, .failed: return isRelevant
            }
        }
        return true
    }

    /// Requests links, addresses and routes, and returns the state of the network. Links from before a change and routes from after it can
    /// look like no network. Therefore the state is read again after a change in the meantime.
    func query() throws(QueueError) -> Network {
        isStale = true
        for left in (0..<Self.readings).reversed() {
            var table = NetworkTable()
            var isConsistent = true
            for type in [RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE] {
                isConsistent = try dump(type, into: &table) && isConsistent
            }
            // The last notifications stay unread, so that the thread continues with them: a network that always changes has a state, too.
            guard isConsistent, left == 0 || !receiveNotifications() else { continue }
            isStale = false
            return table.network { LinkKind.of($0, deviceType: DeviceType.of($0)) }
        }
        throw QueueError(.storage, "the network changes faster than its state can be read")
    }

    /// Requests one table. Returns false when the answer is inconsistent or incomplete.
    private func dump(_ type: Int, into table: inout NetworkTable) throws(QueueError) -> Bool {
        sequence &+= 1
        // struct nlmsghdr, and a struct rtgenmsg for all families.
        var request = [UInt8](repeating: 0, count: 20)
        request.withUnsafeMutableBytes { bytes in
            bytes.storeBytes(of: UInt32(20), toByteOffset: 0, as: UInt32.self)
            bytes.storeBytes(of: UInt16(truncatingIfNeeded: type), toByteOffset: 4, as: UInt16.self)
            bytes.storeBytes(of: UInt16(NLM_F_REQUEST | NLM_F_DUMP), toByteOffset: 6, as: UInt16.self)
            bytes.storeBytes(of: sequence, toByteOffset: 8, as: UInt32.self)
        }
        guard send(requestSocket, request, request.count, 0) == request.count else { throw Self.failure(to: "send a netlink request") }
        var isConsistent = true
        while true {
            switch receive(requestSocket, 0) {
            case .messages(let messages):
                for answer in messages where answer.sequence == sequence {
                    table.add(answer.message)
                    if answer.isInterrupted { isConsistent = false }
                    if case .done = answer.message { return isConsistent }
                    if case .refused(let code) = answer.message {
                        throw QueueError(.storage, "the netlink request was refused: \(Posix.describe(code))")
                    }
                }
            case .overrun: isConsistent = false
            case .nothing: throw QueueError(.storage, "the netlink request timed out after 0.5 s")
            case .failed(let code):
                throw QueueError(.storage, "netlink receive failed: \(Posix.describe(code))")
            }
        }
    }

    private enum Received {
        case messages([KernelMessage.Numbered])
        /// Messages were lost.
        case overrun
        case nothing
        case failed(Int32)
    }

    private func receive(_ socket: Int32, _ flags: Int32) -> Received {
        var sender = sockaddr_nl()
        var length = socklen_t(MemoryLayout<sockaddr_nl>.size)
        let count = withUnsafeMutablePointer(to: &sender) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { recvfrom(socket, &buffer, buffer.count, flags, $0, &length) }
        }
        guard count >= 0 else {
            return switch errno {
            case EAGAIN, EWOULDBLOCK: .nothing
            case EINTR: .messages([])
            case ENOBUFS: .overrun
            default: .failed(errno)
            }
        }
        // Other processes can also send to this socket. Port 0 is the kernel.
        guard sender.nl_pid == 0 else { return .messages([]) }
        return .messages(KernelMessage.read(ByteReader(buffer.prefix(count))))
    }
}
