/// Sends one message and returns the outcome, or `.pending`.
package typealias TransportFunction = @Sendable (Delivery) -> Outcome
/// Sends several messages and returns the outcome of each, or `.pending`.
package typealias BatchTransportFunction = @Sendable ([Delivery]) -> [Outcome]

/// The function of the host that sends messages. It calls `begins` right before it calls the host, after all that takes time: the rate
/// counts from then. Without that call nothing was sent.
package enum Transport: Sendable {
    case single(@Sendable (Delivery, _ begins: () -> Void) -> Outcome)
    case batch(@Sendable ([Delivery], _ begins: () -> Void) -> [Outcome], BatchLimits)

    var limits: BatchLimits? { if case .batch(_, let limits) = self { limits } else { nil } }
}

/// Receives one event and its time.
package typealias EventFunction = @Sendable (Event, _ at: Int64) -> Void
