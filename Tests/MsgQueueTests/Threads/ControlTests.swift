import Glibc
import Testing

@testable import MsgQueue

/// I3: the control socket, over a real socket. The Swift API starts and stops it.
@Suite struct ControlTests {
    private let directory = TemporaryDirectory()
    private var socket: String { directory.store + "-control" }

    private func queue(_ change: (inout MessageQueue.Options) -> Void = { _ in }) throws -> MessageQueue {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        change(&options)
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        try queue.setConnectivity(.online)
        return queue
    }

    @Test func I3_the_socket_answers_with_mode_0600_and_ends_with_the_queue() throws {
        let queue = try queue()
        try queue.startControl()
        var status = stat()
        #expect(lstat(socket, &status) == 0 && status.st_mode == S_IFSOCK | 0o600)
        let peer = try ControlPeer(socket)
        #expect(peer.greeting["protocol"] == 1 && peer.greeting["store"] == .string(directory.store))
        #expect(peer.greeting["msgqueue"] == .string(LibraryVersion.text) && peer.greeting["pid"] == JSONValue(getpid()))
        #expect(try peer.call("ping") == [:])
        #expect(refusal { try queue.startControl() } == .conflict)
        try queue.stopControl()
        try queue.stopControl()
        #expect(try peer.readLine() == nil)
        #expect(access(socket, F_OK) != 0)
        try queue.startControl()
        let second = try ControlPeer(socket)
        try queue.syncClose()
        #expect(try second.readLine() == nil)
        #expect(access(socket, F_OK) != 0)
        #expect(refusal { try queue.startControl() } == .closed)
        #expect(refusal { try queue.stopControl() } == .closed)
    }

    @Test func I3_calls_that_read() throws {
        let queue = try queue()
        try queue.startControl()
        let peer = try ControlPeer(socket)
        for index in 1...5 { try queue.enqueue("body \(index)", conversation: index < 4 ? "ana" : "ben", id: "m\(index)") }
        try queue.enqueue(MessageQueue.Draft([0xff, 0xfe], conversation: "ben", id: "binary"))
        var page = try peer.call("list", ["limit": 2])
        #expect(page["messages"]?.array?.map { $0["id"]?.string } == ["m1", "m2"] && page["messages"]?.array?[0]["body"] == nil)
        page = try peer.call("list", ["limit": 4, "after": try #require(page["next"]), "bodies": true])
        #expect(page["messages"]?.array?.map { $0["body"]?.string } == ["body 3", "body 4", "body 5", nil])
        #expect(page["messages"]?.array?.last?["body_base64"] == "//4=")
        #expect(try peer.call("list", ["after": try #require(page["next"])]) == ["messages": [], "next": .null, "next_time_ms": .null])
        page = try peer.call("list", ["conversation": "ana", "newest_first": true, "limit": 1])
        #expect(page["messages"]?.array?.map { $0["id"]?.string } == ["m3"])
        #expect(try peer.call("list", ["statuses": ["sent", "failed"]])["messages"] == [])
        #expect(try peer.call("get", ["message": "m1"])["body"] == "body 1")
        #expect(try peer.call("explain", ["message": "m1"])["reason"] == "person")
        #expect(try peer.call("attempts", ["message": "m1"]) == ["attempts": []])
        #expect(try peer.call("counts")["queued"] == 6 && peer.call("counts", ["conversation": "ana"])["queued"] == 3)
        let conversations = try peer.call("conversations", ["limit": 1])
        #expect(conversations["conversations"]?.array?.first?["name"] == "ben")
        #expect(try peer.call("conversations", ["before": try #require(conversations["next"])])["conversations"]?.array?.count == 1)
        #expect(try peer.call("stats")["enqueued"] == 6)
        #expect(try peer.call("stats_text")["text"]?.string?.contains(",status=\"queued\"} 6\n") == true)
        #expect(try peer.call("state")["mode"] == "manual" && peer.call("state")["has_transport"] == true)
        #expect(try peer.call("banner")["text"] == "6 messages queued.")
        #expect(try peer.refusal("get", ["message": "none"]) == "NOT_FOUND" && peer.refusal("get", ["message": ""]) == "INVALID")
        let check = try peer.call("check")
        #expect(check["sound"] == true && check["whole"] == 6 && check["text"] == "6 messages, no damage found.")
        try queue.syncClose()
    }

    @Test func I3_calls_that_change() throws {
        let queue = try queue()
        try queue.startControl()
        let peer = try ControlPeer(socket)
        let draft: JSONValue = [
            "conversation": "ana", "body": "héllo\n", "metadata": ["b": "1", "a": "2"], "message": "m1", "expires_at_ms": 9_000_000_000_000,
        ]
        #expect(try peer.call("enqueue", draft) == ["message": "m1"])
        #expect(try peer.refusal("enqueue", draft) == "DUPLICATE")
        let made = try #require(try peer.call("enqueue", ["body_base64": "/w==", "conversation": "ben"])["message"]?.string)
        let message = try queue.message(id: "m1")
        #expect(message.text == "héllo\n" && message.metadata == ["a": "2", "b": "1"] && message.expiresAt != nil)
        #expect(try queue.message(id: made).body == [0xff])
        #expect(try peer.call("edit", ["message": .string(made), "body": "new"]) == [:] && queue.message(id: made).text == "new")
        #expect(try peer.call("pause", ["conversation": "ben"]) == [:] && queue.state().pausedConversations == 1)
        let report = try peer.call("drain")
        #expect(report["sent"] == 1 && report["remaining"] == 1 && report["stop"] == "paused")
        #expect(try peer.call("resume", ["conversation": "ben"]) == [:])
        #expect(try peer.call("mark", ["message": "m1", "status": "delivered"]) == [:] && queue.message(id: "m1").status == .delivered)
        #expect(try peer.refusal("retry", ["message": "m1"]) == "CONFLICT")
        #expect(try peer.call("retry_all") == ["count": 0])
        #expect(try peer.call("send_now", ["message": .string(made)]) == [:])
        #expect(try peer.call("drain")["remaining"] == 0)
        #expect(try peer.call("delete", ["message": "m1"]) == [:] && peer.refusal("get", ["message": "m1"]) == "NOT_FOUND")
        #expect(try peer.call("enqueue", ["body": "x", "conversation": "ana"])["message"] != nil)
        #expect(try peer.call("clear", ["conversation": "ana"]) == [:] && queue.counts().queued == 0)
        let received: JSONValue = ["message": "r1", "conversation": "ana", "sender": "Ana", "body": "hi", "metadata": ["a": "1"]]
        for _ in 0..<2 { #expect(try peer.call("record", received) == ["message": "r1"]) }
        #expect(try queue.message(id: "r1").sender == "Ana" && queue.counts().received == 1)
        #expect(try peer.refusal("record", ["body": "x"]) == "INVALID" && peer.refusal("record", ["body": "x", "sender": ""]) == "INVALID")
        #expect(try peer.call("set_lifecycle", ["lifecycle": "background"]) == [:] && queue.state().isInBackground)
        let copy = directory.path + "/copy.db"
        #expect(try peer.refusal("backup", ["path": "copy.db"]) == "INVALID")
        #expect(try peer.call("backup", ["path": .string(copy)]) == [:] && MessageQueue.check(path: copy).isSound)
        #expect(try peer.refusal("backup", ["path": .string(copy)]) == "CONFLICT")
        try queue.syncClose()
    }

    @Test func H11_I3_messages_change_unless_they_were_edited_since() throws {
        let queue = try queue()
        try queue.startControl()
        let peer = try ControlPeer(socket)
        #expect(try peer.call("subscribe", ["events": ["edited"]]) == [:])
        try queue.enqueue("first", conversation: "ana", metadata: ["a": "1"], id: "m")
        #expect(try peer.call("get", ["message": "m"])["edited_ms"] == 0)
        let edit: JSONValue = ["message": "m", "body": "second", "metadata": ["b": "2"], "if_edited_ms": 0]
        #expect(try peer.call("edit", edit) == [:])
        #expect(try peer.event("edited")["id"] == "m")
        #expect(try peer.refusal("edit", edit) == "CONFLICT")
        let message = try peer.call("get", ["message": "m"])
        #expect(message["body"] == "second" && message["metadata"] == ["b": "2"])
        let edited = try #require(message["edited_ms"]?.integer)
        #expect(try edited > 0 && queue.message(id: "m").editedAt?.millisecondsSince1970 == edited)
        #expect(try peer.refusal("edit", ["message": "m", "body": "x", "if_edited_ms": .integer(edited - 1)]) == "CONFLICT")
        #expect(try peer.call("edit", ["message": "m", "body": "third", "if_edited_ms": .integer(edited)]) == [:])
        #expect(try peer.call("edit", ["message": "m", "body": "fourth", "if_edited_ms": -1]) == [:])
        #expect(try queue.message(id: "m").text == "fourth" && queue.message(id: "m").metadata == ["b": "2"])
        for _ in 0..<2 { #expect(try peer.event("edited")["conversation"] == "ana") }
        // Received messages.
        #expect(try peer.call("record", ["message": "r", "conversation": "ben", "sender": "Ben", "body": "helo"]) == ["message": "r"])
        let update: JSONValue = ["message": "r", "body": "hello", "metadata": ["k": "v"], "time_ms": 5_000]
        #expect(try peer.call("update", update) == [:])
        #expect(try peer.event("edited")["id"] == "r")
        let received = try queue.message(id: "r")
        #expect(received.text == "hello" && received.metadata == ["k": "v"] && received.time.millisecondsSince1970 == 5_000)
        #expect(try peer.call("update", ["message": "r", "body": "hello!", "metadata": [:]]) == [:])
        #expect(try queue.message(id: "r").metadata == [:] && queue.message(id: "r").time == received.time)
        #expect(try peer.refusal("update", ["message": "m", "body": "x"]) == "CONFLICT")
        #expect(try peer.refusal("edit", ["message": "r", "body": "x"]) == "CONFLICT")
        #expect(try peer.refusal("update", ["message": "none", "body": "x"]) == "NOT_FOUND")
        #expect(try peer.refusal("update", ["message": "r", "body": "x", "time_ms": 253_402_300_800_000]) == "INVALID")
        try queue.syncClose()
    }

    @Test func I3_a_prompt_is_seen_and_withdrawn() throws {
        let queue = try queue {
            $0.mode = .ask
            $0.onlineDebounce = .zero
            $0.promptTimeout = .seconds(3600)
        }
        try queue.setConnectivity(.offline)
        try queue.startControl()
        let peer = try ControlPeer(socket)
        #expect(try peer.call("withdraw_prompt") == [:])
        #expect(try peer.call("subscribe", ["events": ["prompt", "prompt_withdrawn"]]) == [:])
        try queue.enqueue("1", conversation: "ana")
        try queue.setConnectivity(.online)
        #expect(try peer.event("prompt")["prompt"]?["messages"] == 1)
        #expect(try peer.call("state")["prompt"]?["expires_ms"] != nil)
        #expect(try peer.call("withdraw_prompt") == [:])
        _ = try peer.event("prompt_withdrawn")
        #expect(try peer.call("state")["prompt"] == .null && queue.counts().queued == 1)
        try queue.syncClose()
    }

    @Test func I3_events_are_in_order_and_end_with_the_subscription() throws {
        let queue = try queue()
        try queue.startControl()
        let (peer, other) = (try ControlPeer(socket), try ControlPeer(socket))
        #expect(try peer.call("subscribe") == [:] && other.call("subscribe", ["events": ["drain_finished"]]) == [:])
        try queue.enqueue("1", conversation: "ana", id: "m1")
        #expect(try peer.call("drain")["sent"] == 1)
        let seen = peer.events.filter { $0["event"] == "status" }.compactMap { $0["to"]?.string }
        #expect(seen == ["queued", "sending", "sent"])
        #expect(try peer.event("summary") { $0["counts"]?["sent"] == 1 }["connectivity"] == "online")
        #expect(try other.readLine()?["report"]?["sent"] == 1)
        #expect(try peer.call("unsubscribe") == [:])
        let before = peer.events.count
        try queue.enqueue("2", conversation: "ana", id: "m2")
        #expect(try peer.call("drain")["sent"] == 1 && peer.events.count == before)
        try queue.syncClose()
    }

    @Test func I3_events_arrive_although_the_handler_of_the_program_hangs() throws {
        let queue = try queue()
        let gate = Mutex()
        gate.lock()
        try queue.engine.setHandler(Registration({ _, _ in gate.withLock {} }))
        try queue.startControl()
        let peer = try ControlPeer(socket)
        #expect(try peer.call("subscribe", ["events": ["status"]]) == [:])
        try queue.enqueue("1", conversation: "ana", id: "m1")
        try queue.enqueue("2", conversation: "ana", id: "m2")
        #expect(try peer.event("status") { $0["id"] == "m2" }["to"] == "queued")
        gate.unlock()
        try queue.syncClose()
    }

    @Test(arguments: [
        ("nonsense", "INVALID"), ("[]", "INVALID"), ("{\"id\":1}", "INVALID"), ("{\"id\":1,\"call\":\"fly\"}", "INVALID"),
        ("{\"id\":1,\"call\":\"ping\",\"x\":1}", "INVALID"), ("{\"id\":1,\"call\":\"get\",\"message\":\"\\u0000\"}", "INVALID"),
        ("\u{1}", "INVALID"), (String(repeating: "[", count: 100_000), "INVALID"), ("{\"id\":null,\"call\":\"ping\"}", "INVALID"),
    ]) func I3_a_wrong_line_is_answered_and_the_connection_goes_on(text: String, code: String) throws {
        let queue = try queue()
        try queue.startControl()
        let peer = try ControlPeer(socket)
        peer.write(text + "\n \t\r\n\n")
        #expect(try peer.readLine()?["error"]?["code"] == .string(code))
        #expect(try peer.call("ping") == [:])
        try queue.syncClose()
    }

    @Test func I3_a_line_that_is_too_long_ends_the_connection() throws {
        let queue = try queue()
        try queue.startControl()
        for ending in ["", "\n"] {
            let peer = try ControlPeer(socket)
            peer.write([UInt8](repeating: 0x20, count: 10 << 20) + Array(ending.utf8))
            let answer = try peer.readLine()
            // The server may have disconnected before the rest was written, so that the answer is lost.
            #expect(answer == nil || answer?["error"]?["code"] == "TOO_LARGE")
            if answer != nil { #expect(try peer.readLine() == nil) }
        }
        #expect(try ControlPeer(socket).call("ping") == [:])
        try queue.syncClose()
    }

    @Test func I3_the_largest_body_and_metadata_fit_into_a_line() throws {
        let queue = try queue { ($0.limitBody, $0.limitMetadata) = (100_000, 20_000) }
        try queue.startControl()
        let peer = try ControlPeer(socket)
        let body = [UInt8](repeating: 0xff, count: 100_000)
        let value = String(repeating: "\u{1}", count: 19_999)
        #expect(
            try peer.call("enqueue", ["message": "m", "body_base64": .string(Base64.encode(body)), "metadata": ["k": .string(value)]])
                == ["message": "m"])
        let message = try peer.call("get", ["message": "m"])
        #expect(message["body_base64"]?.string.flatMap(Base64.decode) == body && message["metadata"]?["k"]?.string == value)
        #expect(try peer.refusal("enqueue", ["body_base64": .string(Base64.encode(body + [1]))]) == "TOO_LARGE")
        try queue.syncClose()
    }

    @Test func I3_a_page_with_bodies_ends_early() throws {
        let queue = try queue()
        var limits = ControlLimits()
        limits.pageBodies = 4_000
        try queue.engine.startControl(path: nil, limits: limits)
        let peer = try ControlPeer(socket)
        // The last body alone is larger than a page may be.
        for index in 1...10 { try queue.enqueue(String(repeating: "a", count: 1_000), conversation: "ana", id: "m\(index)") }
        try queue.enqueue(String(repeating: "a", count: 5_000), conversation: "ana", id: "m11")
        var (after, ids, pages): (JSONValue, [String], Int) = (0, [], 0)
        repeat {
            let page = try peer.call("list", ["bodies": true, "after": after])
            ids += page["messages"]?.array?.compactMap { $0["id"]?.string } ?? []
            (after, pages) = (page["next"] ?? .null, pages + 1)
        } while after != .null
        #expect(ids == (1...11).map { "m\($0)" } && pages == 4)
        try queue.syncClose()
    }

    @Test func I3_half_lines_wait_for_their_end_while_others_are_served() throws {
        let queue = try queue()
        try queue.startControl()
        let (half, other) = (try ControlPeer(socket), try ControlPeer(socket))
        half.write("{\"id\":1,")
        #expect(try other.call("ping") == [:])
        half.write("\"call\":\"ping\"}\n{\"id\":")
        #expect(try half.readLine() == ["id": 1, "result": [:]])
        #expect(try other.call("ping") == [:])
        half.write("2,\"call\":\"ping\"}\n")
        #expect(try half.readLine() == ["id": 2, "result": [:]])
        try queue.syncClose()
    }

    @Test func I3_a_half_line_times_out() throws {
        let queue = try queue()
        var limits = ControlLimits()
        limits.lineTime = 100
        try queue.engine.startControl(path: nil, limits: limits)
        let (half, other) = (try ControlPeer(socket), try ControlPeer(socket))
        half.write("{\"id\":1,")
        #expect(try half.readLine()?["error"]?["code"] == "TIMEOUT")
        #expect(try half.readLine() == nil && other.call("ping") == [:])
        try queue.syncClose()
    }

    @Test func I3_only_a_number_of_clients_is_served() throws {
        let queue = try queue()
        try queue.startControl()
        var peers = try (0..<16).map { _ in try ControlPeer(socket) }
        for _ in 0..<1_000 {
            let refused = try ControlPeer(socket)
            #expect(refused.greeting["error"]?["code"] == "BUSY")
        }
        for peer in peers { #expect(try peer.call("ping") == [:]) }
        peers.removeFirst().end()
        // The server may see the new connection first.
        var served: ControlPeer?
        while served == nil {
            let peer = try ControlPeer(socket)
            if peer.greeting["error"] == nil { served = peer }
        }
        #expect(try served?.call("ping") == [:])
        peers = []
        for _ in 0..<1_000 { _ = try? ControlPeer(socket, greeted: false) }
        try queue.syncClose()
    }

    @Test func I3_an_idle_client_makes_room_for_another() async throws {
        let gate = Mutex()
        gate.lock()
        let queue = try MessageQueue(path: directory.store, options: MessageQueue.Options(mode: .manual))
        try queue.engine.setTransport(
            Registration({ _ in
                gate.withLock {}
                return .sent
            }))
        try queue.setConnectivity(.online)
        var limits = ControlLimits()
        (limits.clients, limits.idleTime) = (4, 500)
        try queue.engine.startControl(path: nil, limits: limits)
        try queue.enqueue("1", conversation: "ana")
        let peers = try (0..<4).map { _ in try ControlPeer(socket) }
        // A subscriber, a client with a drain and one with half a line are never idle.
        #expect(try peers[0].call("subscribe", ["events": ["paused"]]) == [:])
        peers[1].write(["id": 1, "call": "drain"])
        peers[2].write("{")
        #expect(try await eventually { try queue.state().inFlight == 1 })
        #expect(try peers[3].call("ping") == [:])
        #expect(try ControlPeer(socket).greeting["error"]?["code"] == "BUSY")
        // The fourth one makes room when it has been idle for long enough.
        var next = try ControlPeer(socket)
        while next.greeting["error"] != nil {
            try await Task.sleep(for: .milliseconds(20))
            next = try ControlPeer(socket)
        }
        #expect(try next.call("ping") == [:])
        #expect(try peers[3].readLine()?["error"]?["code"] == "BUSY")
        #expect(try peers[3].readLine() == nil)
        #expect(try peers[0].call("ping") == [:])
        gate.unlock()
        #expect(try peers[1].readLine()?["result"]?["sent"] == 1)
        try await queue.close()
    }

    @Test func I3_with_an_interval_events_arrive_together() throws {
        let queue = try queue()
        try queue.startControl()
        let peer = try ControlPeer(socket)
        #expect(try peer.call("subscribe", ["events": ["status", "resync"], "interval_ms": 60_000]) == [:])
        try queue.enqueue("1", conversation: "ana", id: "m1")
        // The first one comes at once, the next ones after the interval.
        #expect(try peer.event("status")["id"] == "m1")
        for number in 2...500 { try queue.enqueue("1", conversation: "ana", id: "m\(number)") }
        #expect(try peer.call("ping") == [:] && peer.events.isEmpty)
        #expect(try peer.call("subscribe", ["events": ["status", "resync"], "interval_ms": 100]) == [:])
        // All events of one commit arrive at once.
        _ = try queue.enqueue((501...2_000).map { MessageQueue.Draft("1", conversation: "ana", id: "m\($0)") })
        try queue.enqueue("1", conversation: "ana", id: "last")
        var lost: Int64 = 0
        var seen = 0
        while true {
            let event = try #require(try peer.events.isEmpty ? peer.readLine() : peer.nextEvent())
            if event["event"] == "resync" { lost += event["lost_events"]?.integer ?? 0 } else { seen += 1 }
            if lost + Int64(seen) == 1_501 { break }
        }
        #expect(lost > 0)
        try queue.syncClose()
    }

    @Test func I3_a_slow_subscriber_is_told_and_disconnected_and_delays_nobody() throws {
        let queue = try queue()
        var limits = ControlLimits()
        limits.eventRoom = 16 << 10
        try queue.engine.startControl(path: nil, limits: limits)
        let (silent, other) = (try ControlPeer(socket), try ControlPeer(socket))
        #expect(try silent.call("subscribe") == [:])
        let name = String(repeating: "c", count: 250)
        for index in 0..<2_000 {
            try queue.enqueue("\(index)", conversation: name)
            if index % 500 == 0 { #expect(try other.call("ping") == [:]) }
        }
        var last: JSONValue?
        while let line = try silent.readLine() { last = line }
        #expect(last?["event"] == "unsubscribed")
        #expect(try other.call("counts")["queued"] == 2_000)
        try queue.syncClose()
    }

    @Test func I3_a_client_that_never_reads_its_answers_is_disconnected() throws {
        let queue = try queue()
        var limits = ControlLimits()
        limits.answerTime = 500
        try queue.engine.startControl(path: nil, limits: limits)
        let (deaf, other) = (try ControlPeer(socket), try ControlPeer(socket))
        deaf.write([UInt8]((0..<1_000).map { _ in JSONWriter.line(["id": 1, "call": "stats_text"]) }.joined()))
        #expect(try other.call("ping") == [:])
        var watched = pollfd(fd: deaf.descriptor, events: 0, revents: 0)
        #expect(poll(&watched, 1, 30_000) == 1 && watched.revents & Int16(POLLHUP) != 0)
        #expect(try other.call("ping") == [:])
        try queue.syncClose()
    }

    @Test func I3_a_client_that_ends_during_a_drain_harms_nothing() async throws {
        let gate = Mutex()
        gate.lock()
        let queue = try MessageQueue(path: directory.store, options: MessageQueue.Options(mode: .manual))
        let engine = queue.engine
        try engine.setTransport(
            Registration({ _ in
                gate.withLock {}
                return .sent
            }))
        try queue.setConnectivity(.online)
        for index in 1...3 { try queue.enqueue("\(index)", conversation: "ana") }
        try queue.startControl()
        let (peer, other) = (try ControlPeer(socket), try ControlPeer(socket))
        peer.write(["id": 1, "call": "drain"])
        other.write(["id": 2, "call": "drain"])
        #expect(try await eventually { try queue.state().inFlight == 1 })
        peer.end()
        gate.unlock()
        #expect(try other.readLine()?["result"]?["remaining"] == 0)
        #expect(try queue.counts().sent == 3)
        #expect(try ControlPeer(socket).call("ping") == [:])
        try await queue.close()
    }

    @Test func I3_the_close_answers_a_drain_and_disconnects_clients() async throws {
        let queue = try queue { $0.backoff = .ladder([.seconds(3600)]) }
        try queue.setTransport { _ in .retry(.server) }
        try queue.enqueue("1", conversation: "ana")
        try queue.startControl()
        let peer = try ControlPeer(socket)
        let subscriber = try ControlPeer(socket)
        #expect(try subscriber.call("subscribe") == [:])
        try queue.pause()
        try queue.resume()
        peer.write(["id": 1, "call": "drain"])
        peer.write(["id": 2, "call": "ping"])
        _ = try peer.readLine()
        try await queue.close()
        while try peer.readLine() != nil {}
        while try subscriber.readLine() != nil {}
        #expect(access(socket, F_OK) != 0)
    }

    @Test func I3_requests_are_answered_although_the_client_writes_no_more() throws {
        let queue = try queue()
        try queue.enqueue("1", conversation: "ana")
        try queue.startControl()
        let peer = try ControlPeer(socket)
        peer.write(["id": 1, "call": "drain"])
        peer.write(["id": 2, "call": "ping"])
        shutdown(peer.descriptor, Int32(SHUT_WR))
        var answered: Set<Int64> = []
        while let line = try peer.readLine() { answered.insert(line["id"]?.integer ?? 0) }
        #expect(answered == [1, 2])
        try queue.syncClose()
    }

    @Test func I3_requests_in_a_row_are_all_performed() throws {
        let queue = try queue()
        try queue.startControl()
        let peer = try ControlPeer(socket)
        let count = 500
        var lines: [UInt8] = []
        for index in 1...count {
            // Every tenth message has the id of the one before it.
            let id = "m\(index % 10 == 0 ? index - 1 : index)"
            lines += JSONWriter.line(["id": JSONValue(index), "call": "enqueue", "body": .string("body \(index)"), "message": .string(id)])
            if index % 7 == 0 { lines += JSONWriter.line(["id": "p", "call": "ping"]) }
        }
        peer.write(lines)
        for index in 1...count {
            let line = try #require(try peer.readLine())
            #expect(line["id"] == JSONValue(index))
            if index % 10 == 0 {
                #expect(line["error"]?["code"] == "DUPLICATE")
            } else {
                #expect(line["result"]?["message"] == .string("m\(index)"))
            }
            if index % 7 == 0 { #expect(try peer.readLine()?["id"] == "p") }
        }
        #expect(try queue.counts().queued == Int64(count - count / 10))
        let page = try queue.list(MessageQueue.Filter(limit: 1000))
        #expect(page.map(\.text) == (1...count).filter { $0 % 10 != 0 }.map { "body \($0)" })
        try queue.syncClose()
    }
}
