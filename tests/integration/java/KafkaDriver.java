import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own Java client, driven by requests on stdin: a JSON object on each line, answered by one on stdout.
 *
 * <p>The clients have their defaults, but for what a request is about.
 */
public final class KafkaDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final String server;

    private KafkaDriver(String server) {
        this.server = server;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = JSON.readTree(line);
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("result", new KafkaDriver(request.get("server").asText()).answer(request));
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private Object answer(JsonNode request) throws Exception {
        String topic = request.get("topic").asText();
        switch (request.get("do").asText()) {
            case "produce":
                return produce(topic, request);
            case "read":
                return read(new TopicPartition(topic, request.get("partition").asInt()), request.get("steps"));
            case "offset_for_time":
                return offsetForTime(new TopicPartition(topic, 0), request.get("timestamp").asLong());
            case "administer":
                return administer(topic);
            default:
                throw new IllegalArgumentException(request.toString());
        }
    }

    private Map<String, Object> settings(Object... more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", server));
        for (int index = 0; index < more.length; index += 2) {
            settings.put((String) more[index], more[index + 1]);
        }
        return settings;
    }

    /** Idempotently, because that is the default. */
    private List<Long> produce(String topic, JsonNode request) throws Exception {
        Map<String, Object> settings =
                settings("compression.type", request.get("compression").asText(), "max.request.size", 8_000_000);
        ByteArraySerializer bytes = new ByteArraySerializer();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (JsonNode each : request.get("messages")) {
                ProducerRecord<byte[], byte[]> message =
                        new ProducerRecord<>(topic, request.get("partition").asInt(), decoded(each.get("key")),
                                decoded(each.get("value")));
                for (JsonNode header : each.get("headers")) {
                    message.headers().add(header.get(0).asText(), decoded(header.get(1)));
                }
                sent.add(producer.send(message));
            }
            List<Long> offsets = new ArrayList<>();
            for (Future<RecordMetadata> each : sent) {
                offsets.add(each.get().offset());
            }
            return offsets;
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(settings(), bytes, bytes);
    }

    private List<List<Object>> read(TopicPartition place, JsonNode steps) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(place));
            List<List<Object>> found = new ArrayList<>();
            for (JsonNode step : steps) {
                consumer.seek(place, step.get(0).asLong());
                found.add(take(consumer, step.get(1).asInt()));
            }
            return found;
        }
    }

    private static List<Object> take(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<Object> found = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (found.size() < count && System.nanoTime() < deadline) {
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                if (found.size() < count) {
                    found.add(described(each));
                }
            }
        }
        return found;
    }

    private static Map<String, Object> described(ConsumerRecord<byte[], byte[]> message) {
        List<Object> headers = new ArrayList<>();
        for (Header each : message.headers()) {
            headers.add(new Object[] {each.key(), encoded(each.value())});
        }
        Map<String, Object> described = new HashMap<>();
        described.put("key", encoded(message.key()));
        described.put("value", encoded(message.value()));
        described.put("headers", headers);
        described.put("offset", message.offset());
        return described;
    }

    private long offsetForTime(TopicPartition place, long timestamp) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(place, timestamp)).get(place);
            return found == null ? -1 : found.offset();
        }
    }

    private Map<String, Object> administer(String topic) throws Exception {
        Map<String, Object> seen = new LinkedHashMap<>();
        try (Admin admin = Admin.create(settings())) {
            NewTopic wanted = new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "5000"));
            admin.createTopics(List.of(wanted)).all().get();
            seen.put("partitions", partitions(admin, topic));
            seen.put("retention.ms", setting(admin, topic, "retention.ms"));
            AlterConfigOp change =
                    new AlterConfigOp(new ConfigEntry("segment.ms", "7000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource(topic), List.of(change))).all().get();
            seen.put("segment.ms", setting(admin, topic, "segment.ms"));
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            seen.put("partitions after growth", partitions(admin, topic));
            seen.put("listed", admin.listTopics().names().get().contains(topic));
            admin.deleteTopics(Set.of(topic)).all().get();
            seen.put("listed after deletion", admin.listTopics().names().get().contains(topic));
        }
        return seen;
    }

    private static int partitions(Admin admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    private static ConfigResource resource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private static String setting(Admin admin, String topic, String name) throws Exception {
        ConfigResource resource = resource(topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
    }

    private static byte[] decoded(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String encoded(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
