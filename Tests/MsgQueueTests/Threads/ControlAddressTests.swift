import Glibc
import Testing

@testable import MsgQueue

/// I3: where the socket file may be, and what was there before.
@Suite struct ControlAddressTests {
    private let directory = TemporaryDirectory()
    private var socket: String { directory.store + "-control" }

    private func queue() throws -> MessageQueue { try MessageQueue(path: directory.store) }

    /// Binds a socket, as a program that has ended leaves it, or that listens.
    private func bind(_ path: String, listens: Bool) -> Int32 {
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        precondition(code == 0)
        if listens { listen(descriptor, 1) }
        return descriptor
    }

    @Test func I3_a_socket_file_that_was_left_is_replaced() throws {
        close(bind(socket, listens: true))
        let queue = try queue()
        try queue.startControl()
        #expect(try ControlPeer(socket).call("ping") == [:])
        try queue.syncClose()
    }

    @Test func I3_a_socket_that_another_program_listens_on_is_left() throws {
        let other = bind(socket, listens: true)
        defer { close(other) }
        let queue = try queue()
        #expect(refusal { try queue.startControl() } == .locked)
        #expect(access(socket, F_OK) == 0)
        try queue.syncClose()
    }

    @Test func I3_a_file_that_is_not_a_socket_is_left() throws {
        let queue = try queue()
        #expect(refusal { try queue.startControl(path: directory.store) } == .conflict)
        symlink("/dev/null", socket)
        #expect(refusal { try queue.startControl() } == .conflict)
        var status = stat()
        #expect(lstat(socket, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
        try queue.syncClose()
        unlink(socket)
    }

    @Test func I3_two_queues_cannot_have_one_socket() throws {
        let queue = try queue()
        let other = try MessageQueue(path: directory.path + "/other.db")
        let path = directory.path + "/shared"
        try queue.startControl(path: path)
        #expect(refusal { try other.startControl(path: path) } == .locked)
        #expect(try ControlPeer(path).greeting["store"] == .string(directory.store))
        try other.syncClose()
        #expect(try ControlPeer(path).call("ping") == [:])
        try queue.syncClose()
    }

    @Test func I3_wrong_paths_are_refused() throws {
        let queue = try queue()
        for path in ["", "a\0b", directory.path + "/missing/s", directory.path + "/", directory.path + "/..", "."] {
            #expect(refusal { try queue.startControl(path: path) } == .invalid, "\(path)")
        }
        #expect(refusal { try queue.startControl(path: directory.path + "/" + String(repeating: "n", count: 300)) } == .invalid)
        #expect(refusal { try queue.startControl(path: directory.path + "/" + String(repeating: "n", count: 120)) } == .invalid)
        let open = directory.path + "/open"
        mkdir(open, 0o700)
        chmod(open, 0o777)
        #expect(refusal { try queue.startControl(path: open + "/s") } == .permission)
        try queue.syncClose()
    }

    @Test func I3_a_path_that_is_too_long_for_an_address_is_reached() throws {
        var deep = directory.path
        while deep.utf8.count < 300 {
            deep += "/" + String(repeating: "d", count: 60)
            mkdir(deep, 0o700)
        }
        let queue = try MessageQueue(path: deep + "/outbox.db")
        try queue.startControl()
        let path = deep + "/outbox.db-control"
        #expect(try ControlPeer(path).call("ping") == [:])
        try queue.syncClose()
        #expect(access(path, F_OK) != 0)
    }

    @Test func I3_a_file_with_the_name_of_the_socket_is_not_removed_at_the_end() throws {
        let queue = try queue()
        try queue.startControl()
        unlink(socket)
        let file = open(socket, O_CREAT | O_WRONLY, 0o600)
        close(file)
        try queue.stopControl()
        #expect(access(socket, F_OK) == 0)
        try queue.syncClose()
    }

    @Test func I3_a_queue_for_reading_has_a_control_socket_only_where_it_is_told() throws {
        try queue().syncClose()
        var options = MessageQueue.Options()
        options.readOnly = true
        let reader = try MessageQueue(path: directory.store, options: options)
        #expect(refusal { try reader.startControl() } == .permission)
        #expect(access(socket, F_OK) != 0)
        try reader.startControl(path: directory.store + "-elsewhere")
        #expect(access(directory.store + "-elsewhere", F_OK) == 0)
        try reader.stopControl()
        try reader.syncClose()
    }
}
