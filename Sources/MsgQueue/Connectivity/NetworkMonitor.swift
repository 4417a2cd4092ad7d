import CPlatform
import Glibc

/// The kernel's word on the network (rtnetlink). One socket hears that something changed, another asks how things are: what was missed
/// between two changes, or lost because the socket overran, can so never matter.
final class NetworkMonitor {
    /// Readable when something changed.
    let descriptor: Int32
    private let questions: Int32
    private var sequence: UInt32 = 0
    private var buffer = [UInt8](repeating: 0, count: 1 << 16)
    /// The last question was not answered.
    private(set) var isStale = false

    init() throws(QueueError) {
        let groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE
        descriptor = try Self.open(groups: UInt32(groups))
        do throws(QueueError) { questions = try Self.open(groups: 0) } catch {
            close(descriptor)
            throw error
        }
        // The kernel answers at once; but nothing of ours waits without end.
        var patience = timeval(tv_sec: 0, tv_usec: 500_000)
        setsockopt(questions, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit {
        close(descriptor)
        close(questions)
    }

    private static func open(groups: UInt32) throws(QueueError) -> Int32 {
        let type = Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue)
        let socket = socket(AF_NETLINK, type, NETLINK_ROUTE)
        guard socket >= 0 else { throw refused("a routing socket") }
        var address = sockaddr_nl()
        address.nl_family = sa_family_t(AF_NETLINK)
        address.nl_groups = groups
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(socket, $0, socklen_t(MemoryLayout<sockaddr_nl>.size)) }
        }
        guard bound == 0 else {
            let error = refused("the news of the network")
            close(socket)
            throw error
        }
        return socket
    }

    private static func refused(_ what: String) -> QueueError {
        let code = errno
        let isForbidden = code == EPERM || code == EACCES || code == EPROTONOSUPPORT || code == EAFNOSUPPORT
        return QueueError(isForbidden ? .permission : .storage, "the system does not give \(what): \(String(cString: strerror(code)))")
    }

    /// How things are after a change; nil: it did not matter, or nobody knows yet (`isStale`).
    func changed() -> Network? {
        guard hearsNews() || isStale else { return nil }
        do throws(QueueError) { return try ask() } catch {
            Log.warning("failed to read the state of the network: \(error.detail)")
            return nil
        }
    }

    /// Takes all news there are; whether one of them matters.
    private func hearsNews() -> Bool {
        var matters = false
        // A storm must not keep this thread here: what is left is news for the next time.
        for _ in 0..<1_000 {
            switch receive(descriptor, Int32(MSG_DONTWAIT)) {
            case .messages(let messages): matters = matters || messages.contains { NetworkTable.isNews($0.message) }
            case .overrun: matters = true
            case .nothing, .failed: return matters
            }
        }
        return true
    }

    /// Asks for links, addresses and routes.
    func ask() throws(QueueError) -> Network {
        isStale = true
        for _ in 0..<10 {
            var table = NetworkTable()
            var isConsistent = true
            for type in [RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE] {
                isConsistent = try dump(type, into: &table) && isConsistent
            }
            guard isConsistent else { continue }
            isStale = false
            return table.network { LinkKind.of($0, deviceType: DeviceType.of($0)) }
        }
        throw QueueError(.storage, "the kernel's tables change faster than they can be read")
    }

    /// False: the answer is of two times, or was lost.
    private func dump(_ type: Int, into table: inout NetworkTable) throws(QueueError) -> Bool {
        sequence &+= 1
        // struct nlmsghdr, and a struct rtgenmsg that asks for every family.
        var request = [UInt8](repeating: 0, count: 20)
        request.withUnsafeMutableBytes { bytes in
            bytes.storeBytes(of: UInt32(20), toByteOffset: 0, as: UInt32.self)
            bytes.storeBytes(of: UInt16(truncatingIfNeeded: type), toByteOffset: 4, as: UInt16.self)
            bytes.storeBytes(of: UInt16(NLM_F_REQUEST | NLM_F_DUMP), toByteOffset: 6, as: UInt16.self)
            bytes.storeBytes(of: sequence, toByteOffset: 8, as: UInt32.self)
        }
        guard send(questions, request, request.count, 0) == request.count else { throw Self.refused("an answer about the network") }
        var isConsistent = true
        while true {
            switch receive(questions, 0) {
            case .messages(let messages):
                for answer in messages where answer.sequence == sequence {
                    table.add(answer.message)
                    if answer.isInterrupted { isConsistent = false }
                    if case .done = answer.message { return isConsistent }
                    if case .refused(let code) = answer.message {
                        throw QueueError(.storage, "the kernel does not tell about the network: \(String(cString: strerror(code)))")
                    }
                }
            case .overrun: isConsistent = false
            case .nothing: throw QueueError(.storage, "the kernel does not answer about the network")
            case .failed(let code):
                throw QueueError(.storage, "the kernel was not heard about the network: \(String(cString: strerror(code)))")
            }
        }
    }

    private enum Received {
        case messages([KernelMessage.Numbered])
        /// Something was lost.
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
        // Other programs can write to this socket, too; only the kernel is number 0.
        guard sender.nl_pid == 0 else { return .messages([]) }
        return .messages(KernelMessage.read(ByteReader(buffer.prefix(count))))
    }
}
