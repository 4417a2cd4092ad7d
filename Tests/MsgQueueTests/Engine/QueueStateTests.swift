import Testing

@testable import MsgQueue

/// Q20 through the Swift API: the state of the queue, and the banner of one conversation.
@Suite struct QueueStateTests {
    private let directory = TemporaryDirectory()

    @Test func Q20_the_state_agrees_with_the_events() throws {
        let queue = try MessageQueue(path: directory.store, options: MessageQueue.Options(mode: .manual))
        #expect(try queue.state().reason == .noTransport)
        try queue.setTransport { _ in .sent }
        try queue.setConnectivity(.online, link: .cellular, isMetered: true)
        try queue.setBackground(true)
        try queue.pause(conversation: "ana")
        var state = try queue.state()
        #expect(state.network == MessageQueue.Network(connectivity: .online, link: .cellular, isMetered: true))
        #expect(state.isInBackground && state.mode == .manual && !state.isPaused && state.pausedConversations == 1)
        #expect(!state.isDraining && state.inFlight == 0 && state.hasTransport && state.prompt == nil && state.promptExpiresAt == nil)
        #expect(state.storage == nil && !state.hasStorageTrouble && state.reason == .done && state.until == nil)
        #expect(state.text == "Nothing is waiting to be sent.")
        try queue.pause()
        state = try queue.state()
        #expect(state.isPaused && state.reason == .paused && state.text == "Sending is paused.")
        try queue.syncClose()
        #expect(refusal { _ = try queue.state() } == .closed)
    }

    @Test func Q20_the_reason_for_being_offline_is_in_the_state_the_explanation_and_the_event() async throws {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        let queue = try MessageQueue(path: directory.store, options: options) { _ in
            .offline(reason: "TLS expected by nats://ana:secret@127.0.0.1:4222")
        }
        let log = EventLog(queue.events)
        let id = try queue.enqueue("hello", conversation: "ana")
        try queue.setConnectivity(.offline, reason: "connection refused by 127.0.0.1:4222")
        #expect(try queue.state().offlineReason == "connection refused by 127.0.0.1:4222")
        #expect(try queue.explain(id).text.hasPrefix("You're offline: connection refused by 127.0.0.1:4222. "))
        let network = MessageQueue.Network(connectivity: .offline, link: .none, offlineReason: "connection refused by 127.0.0.1:4222")
        #expect(await eventually { log.events.contains(.connectivity(network)) })
        try queue.setConnectivity(.online)
        #expect(try queue.state().offlineReason == nil)
        #expect(try await queue.drain().stop == .offline)
        #expect(try queue.state().offlineReason == "TLS expected by nats://127.0.0.1:4222")
        try await queue.close()
    }

    @Test func Q20_the_prompt_is_the_one_of_its_event() async throws {
        var options = MessageQueue.Options(mode: .ask)
        options.onlineDebounce = .zero
        options.promptTimeout = .seconds(3600)
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        let log = EventLog(queue.events)
        try queue.setConnectivity(.offline)
        try queue.enqueue("1", conversation: "ana")
        try queue.enqueue("22", conversation: "ben")
        try queue.setConnectivity(.online)
        let state = try queue.state()
        let prompt = try #require(state.prompt)
        #expect(prompt.messages == 2 && prompt.bytes == 3 && prompt.conversations == 2 && state.promptExpiresAt != nil)
        #expect(await eventually { log.events.contains(.prompt(prompt)) })
        #expect(state.reason == .person && state.text == "Waiting for your confirmation.")
        #expect(try await queue.drain().sent == 2)
        #expect(try queue.state().prompt == nil)
        try await queue.close()
    }

    @Test func Q22_no_withdraws_the_prompt() async throws {
        var options = MessageQueue.Options(mode: .ask)
        (options.onlineDebounce, options.promptTimeout, options.initialConnectivity) = (.zero, .seconds(3600), .offline)
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        let log = EventLog(queue.events)
        try queue.withdrawPrompt()
        try queue.enqueue("1")
        try queue.setConnectivity(.online)
        #expect(try queue.state().prompt != nil)
        try queue.withdrawPrompt()
        #expect(try queue.state().prompt == nil)
        #expect(await eventually { log.events.contains(.promptWithdrawn) })
        #expect(try queue.counts().queued == 1)
        try await queue.close()
        #expect(throws: MessageQueue.Error.self) { try queue.withdrawPrompt() }
    }

    @Test func Q22_the_prompt_follows_the_queue_and_takes_the_failed_messages_along() async throws {
        var options = MessageQueue.Options(mode: .ask)
        (options.onlineDebounce, options.promptTimeout, options.initialConnectivity) = (.zero, .seconds(3600), .offline)
        (options.promptForFailed, options.direct) = (true, false)
        let queue = try MessageQueue(path: directory.store, options: options) { delivery in
            delivery.attempt == 1 && delivery.id == "f" ? .reject(code: 400) : .sent
        }
        let log = EventLog(queue.events)
        try queue.enqueue(MessageQueue.Draft("1", id: "f"))
        try queue.setConnectivity(.online)
        #expect(try queue.state().prompt?.text == "Connected. Auto-send 1 queued message?")
        #expect(try await queue.drain().failed == 1)
        try queue.setConnectivity(.offline)
        for _ in 0..<2 { try queue.enqueue("22") }
        try queue.setConnectivity(.online)
        let state = try queue.state()
        let first = try #require(state.prompt)
        #expect(first.text == "Connected. Auto-send 2 queued and 1 failed message?")
        #expect(first.messages == 2 && first.failed == 1 && first.bytes == 5)
        try queue.enqueue("333")
        func changed() -> MessageQueue.Prompt? {
            log.events.compactMap { if case .promptChanged(let prompt) = $0 { prompt } else { nil } }.last
        }
        #expect(await eventually { changed()?.messages == 3 })
        let now = try queue.state()
        #expect(now.prompt == changed() && now.promptExpiresAt == state.promptExpiresAt)
        let report = try await queue.drain(includeFailed: true)
        #expect(report.sent == 4 && report.putBack == 1)
        try await queue.close()
    }

    /// The prompt has expired, but no timer has run since.
    @Test func Q20_an_expired_prompt_is_not_in_the_state_also_before_the_timer_runs() throws {
        let bench = try EngineBench { ($0.mode, $0.onlineDebounce) = (.ask, 0) }
        try bench.engine.setNetwork(Network(connectivity: .offline))
        try bench.enqueue()
        try bench.engine.setNetwork(Network(connectivity: .online))
        #expect(try bench.engine.state().promptExpiresAt == bench.clock.wall + 10_000)
        bench.clock.advance(9_999)
        #expect(try bench.engine.state().prompt != nil)
        bench.clock.advance(1)
        let state = try bench.engine.state()
        #expect(state.prompt == nil && state.promptExpiresAt == nil && state.reason == .person)
        #expect(state.text == "Waiting for you to send 1 message.")
        try bench.poll()
        #expect(bench.events.contains(.promptWithdrawn))
    }

    @Test func Q20_storage_findings_are_in_the_state() throws {
        let bench = try EngineBench { $0.mode = .manual }
        bench.engine.context.lock.withLock { bench.engine.events.emit(.storage(QueueError(.corrupt, "a message is damaged"))) }
        #expect(try bench.engine.state().storage == .corrupt)
        #expect(try !bench.engine.state().hasStorageTrouble)
        bench.engine.context.lock.withLock { bench.engine.events.emit(.storage(nil)) }
        #expect(try bench.engine.state().storage == nil)
    }

    @Test func Q2_Q19_the_banner_of_one_conversation() throws {
        let queue = try MessageQueue(path: directory.store, options: MessageQueue.Options(mode: .manual)) { _ in .sent }
        try queue.setConnectivity(.offline)
        #expect(try queue.banner() == "You're offline.")
        for name in ["ana", "ana", "ben"] { try queue.enqueue("hello", conversation: name) }
        #expect(try queue.banner() == "You're offline. 3 messages queued.")
        #expect(try queue.banner(conversation: "ana") == "You're offline. 2 messages queued.")
        #expect(try queue.banner(conversation: "absent") == "You're offline.")
        #expect(refusal { _ = try queue.banner(conversation: "a\nb") } == .invalid)
        try queue.syncClose()
    }

    @Test func X1_only_mode_auto_sends_when_connected() throws {
        for (mode, text) in [
            (Mode.auto, "You're offline. It will be sent when connected."), (.ask, "You're offline. Waiting for you to send it."),
            (.manual, "You're offline. Waiting for you to send it."),
        ] {
            let directory = TemporaryDirectory()
            let queue = try MessageQueue(path: directory.store, options: MessageQueue.Options(mode: mode)) { _ in .sent }
            try queue.setConnectivity(.offline)
            #expect(try queue.explain(try queue.enqueue("hello")).text == text)
            try queue.syncClose()
        }
    }
}
