/// Sends one message and returns the outcome, or `.pending`.
package typealias TransportFunction = @Sendable (Delivery) -> Outcome
/// Receives one event and its time.
package typealias EventFunction = @Sendable (Event, _ at: Int64) -> Void
