import Glibc

/// What callers change.
extension Engine {
    // MARK: Messages in

    /// Stores the drafts in this order, all or none; gives their ids.
    package func enqueue(_ drafts: UnsafeBufferPointer<BorrowedDraft>) throws(QueueError) -> [String] {
        try context.checkProcess()
        for draft in drafts { try DraftRule.check(draft, context.options) }
        return try insertion.enqueue(drafts, settle: driver.settle)
    }

    /// Puts somebody else's message into the history; a second time changes nothing.
    package func record(_ given: BorrowedDraft, sender: String) throws(QueueError) -> String {
        var draft = given
        (draft.notBefore, draft.expiresAt, draft.unmeteredOnly) = (0, 0, false)
        try DraftRule.check(draft, context.options)
        guard !sender.isEmpty else { throw QueueError(.invalid, "the sender is empty") }
        try DraftRule.check(conversation: sender)
        return try changing { () throws(QueueError) in try insertion.record(draft, sender: sender) }
    }

    // MARK: One message

    package func edit(_ id: String, body: UnsafeRawBufferPointer) throws(QueueError) {
        try DraftRule.check(id: id)
        try DraftRule.check(bodySize: body.count, context.options)
        try changing { () throws(QueueError) in try changes.edit(id, body: body) }
    }

    package func delete(_ id: String) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in try changes.delete(id) }
    }

    package func retry(_ id: String) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in try changes.retry(id) }
    }

    package func sendNow(_ id: String) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in try changes.sendNow(id) }
    }

    package func mark(_ id: String, as receipt: MessageStatus) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in try changes.mark(id, as: receipt) }
    }

    /// The answer to an attempt that the transport left pending.
    package func complete(_ token: UInt64, _ outcome: Outcome) throws(QueueError) {
        guard outcome.verdict != .pending else { throw QueueError(.invalid, "an answer is not pending") }
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        // While closing, answers are what is waited for.
        guard context.phase != .closed else { throw context.ending }
        defer { driver.settle() }
        try driver.complete(token, outcome)
    }

    // MARK: Many messages

    /// Removes what is unsent of one conversation or of all; what is being sent goes when its attempt ends, unless that succeeds.
    package func clear(_ conversation: String?) throws(QueueError) {
        if let conversation { try DraftRule.check(conversation: conversation) }
        try changing { () throws(QueueError) in try changes.clear(conversation) }
    }

    /// Puts every failed message, of one conversation or of all, back to `queued` in its place and sends them, in any mode; how many.
    /// While offline nothing changes in the modes ask and manual.
    package func retryAll(_ conversation: String?) throws(QueueError) -> Int64 {
        if let conversation { try DraftRule.check(conversation: conversation) }
        var retry = Changes.Retry(conversation.map { Name($0) })
        while try changing({ () throws(QueueError) in try changes.putBack(&retry) }) {
            // Whoever waits for the lock comes first.
            usleep(100)
        }
        return retry.count
    }

    // MARK: Pauses

    /// Nothing starts until `resume`: in one conversation, or (nil) at all. Not kept over a restart.
    package func pause(_ conversation: String?) throws(QueueError) {
        if let conversation { try DraftRule.check(conversation: conversation) }
        try changing { () throws(QueueError) in
            guard context.core.scheduler.pause(conversation.map { Name($0) }, context.ports.moment) else { return }
            events.emit(.paused(conversation: conversation, isPaused: true, kind: .none))
        }
    }

    package func resume(_ conversation: String?) throws(QueueError) {
        if let conversation { try DraftRule.check(conversation: conversation) }
        try changing { () throws(QueueError) in
            guard context.core.resume(conversation.map { Name($0) }, context.ports.moment) else { return }
            events.emit(.paused(conversation: conversation, isPaused: false, kind: .none))
        }
    }

    // MARK: The world

    package func setLifecycle(isInBackground: Bool) throws(QueueError) {
        try input { () throws(QueueError) in
            context.core.scheduler.lifecycleChanged(isInBackground: isInBackground, context.ports.moment)
        }
    }

    package func setNetwork(_ state: Network) throws(QueueError) {
        try input { () throws(QueueError) in try network.set(state) }
    }

    /// The kernel's word from now on, and as it is now. A second time changes nothing.
    package func startMonitor() throws(QueueError) {
        guard try input({ () throws(QueueError) in network.monitor == nil }) else { return }
        let monitor = try NetworkMonitor()
        let state = try monitor.query()
        try input { () throws(QueueError) in
            guard network.monitor == nil else { return }
            network.start(monitor, state)
            // The timer thread sleeps without it.
            timer.wake()
        }
    }

    /// What was said last stays true until the host says something else.
    package func stopMonitor() throws(QueueError) {
        try input { () throws(QueueError) in
            network.stop()
            timer.wake()
        }
    }
}
