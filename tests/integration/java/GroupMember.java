import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group, which tells what it sees as JSON lines: as tests/integration/group_member.py does, whose
 * argument it takes.
 */
public final class GroupMember {
    private static final ObjectMapper JSON = new ObjectMapper();

    private GroupMember() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode wish = JSON.readTree(arguments[0]);
        AtomicBoolean isOver = awaitEnd();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings(wish), bytes, bytes)) {
            consumer.subscribe(List.of(wish.get("topic").asText()));
            List<Integer> owned = null;
            while (!isOver.get()) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(50));
                List<Integer> now = owned(consumer);
                if (!now.equals(owned)) {
                    owned = now;
                    tell("assigned", Map.of("partitions", now, "generation", consumer.groupMetadata().generationId()));
                }
                for (ConsumerRecord<byte[], byte[]> each : found) {
                    tell("record", Map.of("partition", each.partition(), "offset", each.offset()));
                }
                commit(consumer, found);
            }
        }
    }

    private static Map<String, Object> settings(JsonNode wish) {
        return Map.of(
                "bootstrap.servers", wish.get("server").asText(),
                "group.id", wish.get("group").asText(),
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false,
                "session.timeout.ms", wish.get("session_ms").asInt(),
                "heartbeat.interval.ms", 500);
    }

    private static AtomicBoolean awaitEnd() {
        AtomicBoolean isOver = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                System.in.read();
            } catch (IOException error) {
                // That is an end, too.
            }
            isOver.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        return isOver;
    }

    private static List<Integer> owned(KafkaConsumer<byte[], byte[]> consumer) {
        return consumer.assignment().stream().map(TopicPartition::partition).sorted().collect(Collectors.toList());
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer, ConsumerRecords<byte[], byte[]> found) {
        if (found.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync();
        } catch (KafkaException error) {
            // The next owner reads it again.
        }
    }

    private static void tell(String event, Map<String, Object> more) throws IOException {
        Map<String, Object> line = new HashMap<>(more);
        line.put("member", 0);
        line.put("event", event);
        System.out.println(JSON.writeValueAsString(line));
    }
}
