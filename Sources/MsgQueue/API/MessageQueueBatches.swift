extension MessageQueue {
    /// Sends several messages and returns an outcome for each, in the same order.
    ///
    /// The messages of one conversation are in order and next to each other, and none of that conversation is sent by another call before
    /// each of them has an outcome. If one of them fails, the order is only kept if the transport does not send those after it: it stops
    /// that conversation and returns `.skipped` for the rest. If the number of outcomes is not that of the messages, every message of the
    /// batch has failed with kind unknown and is retried.
    ///
    /// The rest is as for ``Transport``, for the whole batch. An `EncodingError` that it throws for several messages does not say which of
    /// them it means, and is retried as any other error: return `.reject(.local)` for that message instead.
    public typealias BatchTransport = @Sendable ([Delivery]) async throws -> [Outcome]

    /// The limits of the batches that a ``BatchTransport`` receives.
    public struct BatchOptions: Sendable, Hashable {
        /// The most messages in a batch: 1 to 1,000. Default: 100. Unless ``maxBatches`` is set, a batch begins while fewer than
        /// ``Options/maxInFlight`` messages are in flight. It has more than the rest of those only if none is; so with the default of 1
        /// there is one call at a time.
        public var maxMessages = 100
        /// The most bytes of bodies in a batch: 1 to 1 GiB. Default: 1 MiB. A larger message is alone in its batch.
        public var maxBytes = 1 << 20
        /// How long a batch that is not full waits for more messages: 0 to 60 s. Default: 0. During a drain that was asked for it does not
        /// wait.
        public var linger = Duration.zero
        /// All messages of a batch belong to one conversation. Default: false.
        public var singleConversation = false
        /// The most batches in flight: 1 to 64. Each may have ``maxMessages`` messages, whatever ``Options/maxInFlight`` is. With 2 the
        /// next batch is sent while the outcomes of the last one are stored. Default: 0, ``Options/maxInFlight`` limits the messages in
        /// flight. While sending ramps up (``Options/rampUp``), as few batches are in flight as attempts would be.
        public var maxBatches = 0

        /// Creates options with their default values.
        public init() {}
    }

    /// Sets the function that sends messages, several in one call; nil removes it. It replaces a transport that ``setTransport(_:)`` set,
    /// and the other way round.
    ///
    /// A batch begins in commits of up to 256 messages (with ``MessageQueue/Options/holdInterrupted`` in one), and its outcomes are stored in
    /// commits of 64 (with ``MessageQueue/Options/durableOutcomes`` of 128); between them other calls run.
    ///
    /// A message for which it returns `.skipped` goes back to its place and uses up no retry. It is tried again at once if another attempt
    /// has ended since its own began, otherwise after one second; in the modes `ask` and `manual` one that a drain left waits for the next
    /// drain. A skip is no attempt: the message's attempts neither count nor list it. A message that ``MessageQueue/retry(_:)`` tried is
    /// failed as before; one of ``MessageQueue/sendNow(_:)`` is in its place.
    ///
    /// After a crash during a call each message of it has used up a retry, and is alone in its next call, also after further crashes. So one
    /// that crashes the process again interrupts no other message, except those of calls that run at the same time.
    ///
    /// - Throws: `.invalid` (an option is out of its range), `.permission` (the queue is read-only), `.closed`.
    public func setBatchTransport(_ transport: BatchTransport?, options: BatchOptions = BatchOptions()) throws(Error) {
        guard let transport else { return try engine.setTransport(nil) }
        let start: BatchTransportFunction = { [weak engine, senders] deliveries in
            senders.begin(deliveries) {
                do {
                    let answers = try await transport(deliveries.map { Delivery($0) })
                    return BatchRule.complete(answers.map(\.engine), count: deliveries.count)
                } catch {
                    return deliveries.map { _ in .thrown(error, messages: deliveries.count) }
                }
            } complete: { [weak engine] (outcomes: [MsgQueue.Outcome]) in
                engine?.complete(deliveries, outcomes)
            }
            return deliveries.map { _ in .pending }
        }
        try engine.setTransport(Registration(batches: options.engine, start, returnsAtOnce: true))
    }
}

extension MessageQueue.BatchOptions {
    package var engine: BatchLimits {
        var limits = BatchLimits()
        (limits.maxMessages, limits.maxBytes) = (maxMessages, maxBytes)
        (limits.linger, limits.singleConversation, limits.maxBatches) = (linger.milliseconds, singleConversation, maxBatches)
        return limits
    }
}

extension Engine {
    /// Ends the attempts of a batch that a task of the Swift API has sent. Those that were left pending are completed later.
    fileprivate func complete(_ deliveries: [Delivery], _ outcomes: [Outcome]) {
        let places = BatchRule.settlingOrder(outcomes.map(\.verdict)).filter { outcomes[$0].verdict != .pending }
        func ignored(_ place: Int, _ error: QueueError) {
            Log.warning("ignored the outcome for message \(deliveries[place].id): \(error.detail)")
        }
        do throws(QueueError) {
            let errors = try complete(places.map { (deliveries[$0].token, outcomes[$0]) })
            for (place, error) in zip(places, errors) { if let error { ignored(place, error) } }
        } catch {
            for place in places { ignored(place, error) }
        }
    }
}
