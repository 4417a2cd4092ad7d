import CMsgQueue
import Glibc
import MsgQueue

@_cdecl("msgq_set_batch_transport") @implementation
public func msgq_set_batch_transport(
    _ queue: OpaquePointer!, _ transport: msgq_batch_transport_fn!, _ context: UnsafeMutableRawPointer!,
    _ release: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!, _ options: UnsafePointer<msgq_batch_options>!
) -> msgq_result {
    let host = HostContext(pointer: context, release: release)
    return status { () throws(QueueError) in
        let engine = try Handles.engine(queue, for: host)
        let batches: BatchLayout?
        do throws(QueueError) { batches = transport == nil ? nil : try BatchLayout(try require(options, "options")) } catch {
            engine.release(host.releasing)
            throw error
        }
        guard let transport, let batches else {
            // No function is set that would use the context, whether or not the call succeeds.
            defer { engine.release(host.releasing) }
            return try engine.setTransport(nil)
        }
        try engine.setTransport(
            Registration(.batch({ batches.call(transport, host, $0, $1) }, batches.limits), release: host.releasing))
    }
}

/// The options of a batch transport, with the sizes of the structs in its arrays.
private struct BatchLayout: Sendable {
    let limits: BatchLimits
    private let deliverySize: Int
    private let outcomeSize: Int

    init(_ options: UnsafePointer<msgq_batch_options>) throws(QueueError) {
        let given = try Structs.read(
            options, "msgq_batch_options", over: msgq_batch_options(), minimum: MemoryLayout<msgq_batch_options>.offset(of: \.max_bytes),
            flags: [\.single_conversation])
        deliverySize = try Self.size(
            given.delivery_size, "delivery_size", least: MemoryLayout<msgq_delivery>.offset(of: \.metadata) ?? 0)
        outcomeSize = try Self.size(given.outcome_size, "outcome_size", least: MemoryLayout<msgq_outcome>.offset(of: \.retry_after_ms) ?? 0)
        var limits = BatchLimits()
        if given.max_messages != 0 { limits.maxMessages = Int(given.max_messages) }
        if given.max_bytes != 0 { limits.maxBytes = try BatchLimits.bytesRange.check(given.max_bytes) }
        (limits.linger, limits.singleConversation) = (given.linger_ms, given.single_conversation)
        limits.maxBatches = try BatchLimits.batchesRange.check(given.max_batches)
        self.limits = limits
    }

    /// Checks the size of a struct in an array of the caller's version.
    private static func size(_ size: Int, _ name: StaticString, least: Int) throws(QueueError) -> Int {
        guard size >= least, size <= Structs.ceiling, size % 8 == 0 else {
            throw QueueError(
                .invalid, "invalid \(name): \(UInt(bitPattern: size)); initialise msgq_batch_options with MSGQ_BATCH_OPTIONS_INIT")
        }
        return size
    }

    /// Calls a host's C transport. Returns an outcome for each delivery.
    func call(
        _ transport: msgq_batch_transport_fn, _ host: HostContext, _ deliveries: [Delivery], _ begins: () -> Void
    ) -> [Outcome] {
        let memory: UnsafeMutableRawPointer
        do throws(QueueError) { memory = try Block.make { build(&$0, deliveries) } } catch {
            // The transport was not called, so nothing was sent.
            return deliveries.map { _ in Outcome(verdict: .offline, text: error.detail) }
        }
        defer { free(memory) }
        let outcomes = memory + deliveries.count * deliverySize
        begins()
        transport(
            host.pointer, memory.assumingMemoryBound(to: msgq_delivery.self), deliveries.count,
            outcomes.assumingMemoryBound(to: msgq_outcome.self))
        return deliveries.indices.map { index in
            let answer = Structs.copy(
                outcomes + index * outcomeSize, count: outcomeSize, over: defaultOutcome, flags: [\.retry_after_queue, \.not_sent])
            return outcome(answer.verdict, answer)
        }
    }

    /// Lays out the deliveries, the outcomes, and what the deliveries point to.
    private func build(_ block: inout Block, _ deliveries: [Delivery]) {
        let array = block.reserve(UInt64.self, count: deliveries.count * deliverySize / 8).map { UnsafeMutableRawPointer($0) }
        let outcomes = block.reserve(UInt64.self, count: deliveries.count * outcomeSize / 8).map { UnsafeMutableRawPointer($0) }
        var blank = defaultOutcome
        blank.struct_size = UInt32(min(outcomeSize, MemoryLayout<msgq_outcome>.stride))
        // Names are compared by their bytes: texts that are canonically equivalent are equal.
        var conversation: (name: Name, pointer: UnsafePointer<CChar>?)?
        for (index, delivery) in deliveries.enumerated() {
            let name = Name(delivery.conversation)
            if conversation?.name != name { conversation = (name, block.string(delivery.conversation)) }
            let (id, metadata, body) = (block.string(delivery.id), block.pairs(delivery.pairs), block.bytes(delivery.body))
            guard let array, let outcomes else { continue }
            let value = msgq_delivery(
                struct_size: UInt32(min(deliverySize, MemoryLayout<msgq_delivery>.stride)), attempt: delivery.attempt,
                token: delivery.token, id: id, conversation: conversation?.pointer, body: UnsafeRawPointer(body),
                body_size: delivery.body.count, metadata: metadata, metadata_count: delivery.pairs.count, created_ms: delivery.createdAt,
                timeout_ms: delivery.timeout)
            Structs.fill(array + index * deliverySize, count: deliverySize, with: value)
            Structs.fill(outcomes + index * outcomeSize, count: outcomeSize, with: blank)
        }
    }
}
