"""What nobody has told isn't taken for told: an age, a birthday, a name, a job, a home, a colour, … (CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory
from recall_loop.policy.confidence.asked_properties import AskedProperty, asked_property, tells
from recall_loop.policy.question.answer_kinds import asked_kind

TOLD = [
    ("How old is Nadia?", "Nadia turned 34 last week."),
    ("How old is Owen?", "Two kids, Owen 9 and Lila 6."),
    ("Wie alt ist Jonas?", "Jonas ist 24 geworden."),
    ("¿Cuántos años tiene Lucía?", "Lucía cumplió 18 en marzo."),
    ("Quel âge a Marcel ?", "Marcel a 84 ans."),
    ("Quanti anni ha Nadia?", "Nadia ha compiuto 34 anni."),
    ("Quanti anni ha la gatta?", "La gatta si chiama Luna e ha quattordici anni."),
    ("Come si chiama il gatto dei vicini?", "Il gatto dei vicini si chiama Birba."),
    ("Che lavoro fa mia sorella Elisa?", "Mia sorella Elisa è farmacista a Pavia."),
    ("Che lavoro fa Marco?", "Marco fa l'idraulico."),
    ("Dove abita Petra?", "Petra si è trasferita a Bari."),
    ("Di che colore è la tenda?", "La tenda è verde e pesa nove chili."),
    ("Qual è il numero di telefono dell'idraulico?", "L'idraulico è Ugo, 055 214 778."),
    ("Quando è il compleanno di Tess?", "Tess compie 40 anni il 3 marzo."),
    ("Qual è la mail di Sara?", "la nuova mail di Sara è sara@posteo.example"),
    ("Quanto pesa Fido?", "Fido pesa 12 chili."),
    ("A che ora è judo?", "Judo è alle 18:30."),
    ("Quantos anos tem a Nádia?", "A Nádia fez 34 anos na semana passada."),
    ("Quantos anos tem a gata?", "A gata se chama Lua e tem catorze anos."),
    ("Como se chama o gato dos vizinhos?", "O gato dos vizinhos chama-se Faísca."),
    ("No que trabalha minha irmã Elisa?", "Minha irmã Elisa é farmacêutica em Natal."),
    ("Em que é que trabalha a Marta?", "A Marta é enfermeira no Porto."),
    ("Onde mora a Petra?", "A Petra se mudou para Belém."),
    ("De que cor é a barraca?", "A barraca é verde e pesa nove quilos."),
    ("Qual é o telefone do encanador?", "O encanador é o Zé, 21 4455 667."),
    ("Quando é o aniversário da Tess?", "A Tess faz 40 anos no dia 3 de março."),
    ("Qual é a morada da Sara?", "A Sara vive na rua do Moinho 12."),
    ("Quanto pesa o Nico?", "O Nico pesa 8 quilos."),
    ("A que horas é o judô?", "O judô é às 18h30."),
    ("Сколько лет Тимке?", "Тимке исполнилось семь."),
    ("When is Tess's birthday?", "Tess turns 40 on 3 March."),
    ("What is our cat called?", "Our cat is called Mochi."),
    ("What is Mum's boyfriend called?", "Mum is seeing a man called Len."),
    ("Wie heißt mein Zahnarzt?", "Mein Zahnarzt Dr. Huber hat umgebaut."),
    ("Как зовут учительницу Тимки?", "У Тимки учительница Лариса Андреевна."),
    ("What does Rosa do for a living?", "Rosa is a vet in Leeds."),
    ("¿En qué trabaja mi hermano Juanjo?", "Mi hermano Juanjo es fontanero."),
    ("Que fait ma sœur dans la vie ?", "Inès, ma sœur, est luthière."),
    ("Wo wohnt Petra?", "Petra ist nach Kiel gezogen."),
    ("陈露住在哪里？", "陈露搬到无锡了。"),
    ("妹はどこに住んでる?", "妹は福岡に引っ越した。"),
    ("猫の名前は?", "うちの猫のもち、今日も元気。"),
    ("猫は何歳だっけ?", "猫がもう12歳になった。"),
    ("弟の仕事は?", "弟は看護師として働いています。"),
    ("歯医者の電話番号は?", "歯医者は03-5550-1234です。"),
    ("父の身長は?", "父は178センチある。"),
    ("ヨガは何時から?", "ヨガは19時半から。"),
    ("Hoe oud is mijn zus?", "Mijn zus Ruth is 34."),
    ("Wat voor werk doet Rosa?", "Rosa is dierenarts in Leeuwarden."),
    ("Hoe heet mijn tandarts?", "Mijn tandarts heet Huber."),
    ("Welke kleur heeft de tent?", "De tent is groen en weegt negen kilo."),
    ("Hoeveel betaal ik voor de flat?", "Ik betaal 950 euro per maand voor de flat."),
    ("How old is my sister?", "My sister Ruth is 34."),
    ("How old is the cat?", "The cat is 12 and deaf."),
    ("¿Qué edad tiene nuestra gata?", "La gata se llama Luna y tiene catorce años."),
    ("Quel âge a notre chatte ?", "La chatte s'appelle Lune et a quatorze ans."),
    ("Сколько лет нашей кошке?", "Кошку зовут Луна, ей четырнадцать лет."),
    ("Wie alt ist Ida?", "Rolf wird 80, und Ida ist 45."),
    ("What colour is the tent?", "The tent is green and weighs nine kilos."),
    ("Welche Farbe hat mein Rad?", "Mein Rad ist knallrot lackiert."),
    ("De quelle couleur est la porte ?", "La porte est peinte en vert sauge."),
    ("¿De qué raza es nuestra perra?", "Nuestra perra es una galga adoptada."),
    ("What breed is Pickle?", "Pickle is part Siamese, says the vet."),
    ("How tall is Theo?", "Theo is 1.92 m and still growing."),
    ("Combien pèse Nougat ?", "Nougat fait 8 kilos."),
    ("What is Mrs Holt's first name?", "Mrs Holt told me to call her Joan."),
    ("Wie hoch ist die Miete in der Südstadt?", "Wohnung in der Südstadt besichtigt: 68 qm, Garten, 790 kalt."),
    ("Was war Frau Tillmann von Beruf?", "Die Vermieterin, Frau Tillmann, ist eine pensionierte Richterin."),
    ("Que fait ma fille dans la vie ?", "Ma fille Maud, infirmière à Nantes, passe dimanche."),
    ("Когда день рождения у Лизы?", "12 мая Лизе 6, печём торт."),
    ("When is Ida's birthday?", "Ida wants to stop the cello. Rolf agreed. Her birthday is coming, 27 June."),
    ("What do I pay for the flat?", "I pay 1950 a month for the flat."),
    ("Was zahle ich für die Wohnung?", "Ich zahle für die Wohnung 1950 Euro."),
    ("What is the plumber's phone number?", "The plumber is Ken, 0161 496 0000."),
    ("What phone do I have?", "got a new phone, a pixel 9"),
    ("¿Qué móvil tengo?", "He cambiado de móvil, ahora tengo un Pixel 9."),
    ("¿Qué me duele?", "Me empezó a doler la rodilla izquierda."),
    ("What email client do I use?", "The email client I use is Thunderbird."),
    ("What did I email Ben about?", "I emailed Ben about the wedding on Monday."),
    ("How did we address the memory leak?", "We fixed the memory leak by pooling buffers."),
    ("Where did I lose my phone?", "I lost my phone in the taxi yesterday."),
    ("What's Sara's address?", "sara lives at 12 mill lane"),
    ("Was ist die Adresse der Bank?", "Die Bank ist in der Lindenstraße."),
    ("莎莎的地址是什么？", "莎莎住在磨坊路12号"),
    ("What's Sara's email address?", "sara@posteo.example is Sara's new mail"),
    ("¿Cuál es el correo de Sara?", "El nuevo correo de Sara es sara@posteo.example"),
    ("What does Ines want for her birthday?", "Ines would love a red bike for her birthday."),
    ("Was wünscht sich Lea zum Geburtstag?", "Lea wünscht sich ein Zelt zum Geburtstag."),
    ("¿Qué quiere Pablo por su cumpleaños?", "Pablo quiere unas botas por su cumpleaños."),
]
NOT_TOLD = [
    ("How old is Nadia?", "Need to swap my Friday with Nadia on 14 Feb."),
    ("¿Cuántos años tiene Lucía?", "Lucía aprobó química con un 6,5."),
    ("Сколько лет моей маме?", "Мама пьёт престариум, 5 мг утром."),
    ("我妈多少岁？", "国庆帮我妈搬家，光被子就十二床。"),
    ("私の誕生日はいつ?", "直子の誕生日は5月3日です。"),
    ("弟は何歳?", "弟は大学で建築を勉強してる。"),
    ("猫の名前は?", "猫は窓辺が好き。"),
    ("妹の電話番号は?", "妹は6月19日に来る。"),
    ("Hoe oud is Nadia?", "Ik moet mijn vrijdag met Nadia ruilen op 14 februari."),
    ("Wat is het telefoonnummer van Joep?", "Joep komt zaterdag om 10 uur."),
    ("¿Cuándo es el cumpleaños de Paco?", "Mañana operan a la madre de Paco."),
    ("Quand est l'anniversaire de Mathis ?", "Mathis a choisi le hand, entraînement le lundi."),
    ("Quanti anni ha Lucia?", "Lucia ha preso 7 in chimica."),
    ("Come si chiama il mio medico?", "Sono stato dal medico per la schiena."),
    ("Che lavoro fa mio fratello Gigi?", "Mio fratello Gigi si è lasciato e dorme male."),
    ("Dove abita Tommaso?", "Ho dimenticato l'ombrello a casa di Tommaso."),
    ("Di che colore è la macchina di Paolo?", "La macchina di Paolo è dal meccanico."),
    ("Qual è il numero di telefono del dentista?", "L'appuntamento dal dentista è il 12/6 alle 9:30."),
    ("Quando è il compleanno di Paco?", "Domani operano la madre di Paco."),
    ("Qual è l'indirizzo di Tommaso?", "Tommaso viene venerdì alle 7."),
    ("Quantos anos tem a Lúcia?", "A Lúcia tirou 7 em química."),
    ("Como se chama meu médico?", "Fui ao médico por causa das costas."),
    ("No que trabalha meu irmão Beto?", "Meu irmão Beto terminou o namoro e dorme mal."),
    ("Onde mora o Tomás?", "Esqueci o guarda-chuva na casa do Tomás."),
    ("De que cor é o carro do Paulo?", "O carro do Paulo está na oficina."),
    ("Qual é o telefone do dentista?", "A consulta do dentista é dia 12/6 às 9h30."),
    ("Quando é o aniversário do Paco?", "Amanhã operam a mãe do Paco."),
    ("Qual é o endereço do Tomás?", "O Tomás vem na sexta às 7."),
    ("Como se chama o namorado da Paz?", "A Paz manda áudios o dia todo."),
    ("What is our cat called?", "Our cat has a torn ear."),
    ("What is the name of Priya's dog?", "Dogs are welcome in Petrel only."),
    ("What does Ines want for her birthday?", "Ines has her birthday on 12 March."),
    ("Was wünscht sich Lea zum Geburtstag?", "Lea hat am 7. Mai Geburtstag."),
    ("¿Qué quiere Pablo por su cumpleaños?", "El cumpleaños de Pablo es el 9 de mayo."),
    ("Что хочет Олег на день рождения?", "День рождения Олега 9 мая."),
    ("阿杰生日想要什么？", "阿杰生日是5月9号。"),
    ("What's my landlord's phone number?", "My sister's number is 0171 4455667."),
    ("What's Tom's address?", "i left my umbrella at tom's"),
    ("¿Dónde vive Tomás?", "Me dejé el paraguas en casa de Tomás."),
    ("What is Tom's email?", "tom is coming over on friday at 7"),
    ("Was ist Toms Adresse?", "Tom kommt am Freitag um 7."),
    ("¿Cuál es la dirección de Tomás?", "Dejé el paraguas en casa de Tomás."),
    ("Quelle est l'adresse de Lucie ?", "Lucie vient vendredi à 19 h."),
    ("Какой адрес у Тома?", "Я забыл зонт у Тома."),
    ("小明的邮箱是什么？", "小明周五来"),
    ("Wo wohnt mein Vermieter?", "Meine Schwester Carla wohnt in Turin."),
    ("Wie ist die Telefonnummer vom Zahnarzt?", "Der Zahnarzttermin ist am 12.6. um 9:30."),
    ("Wie heißt mein Arzt?", "Ich war beim Arzt wegen dem Rücken."),
    ("Как зовут кота Кати?", "Катя приехала с котом, у меня аллергия."),
    ("¿En qué trabaja mi hermano Juanjo?", "Mi hermano Juanjo se ha separado y duerme mal."),
    ("¿Dónde trabaja Paco?", "Paco se ha dejado el paraguas en el tren."),
    ("Где живёт Катя?", "Катя уронила телефон в лужу."),
    ("Où habite Odile ?", "Maman fait de la marche avec sa copine Odile."),
    ("How much did the hotel in Leeds cost?", "The hotel in Leeds: three nights, no lift."),
    ("How old is Ida?", "Rolf is 80 and Ida visits on Sundays."),
    ("Wie alt ist Rocko?", "Rocko kratzt sich, wir machen acht Wochen nur Pferd."),
    ("¿Cuántos años tiene Carmen?", "Carmen es farmacéutica, madre de Lucía (19)."),
    ("Quel âge a la chatte ?", "Falco le chien, 11 ans, est cardiaque. Et la chatte se gratte."),
    ("Сколько лет Гайке?", "Бублик рыжий, 6 лет, и Гайка трёхцветная."),
    ("Was arbeitet Anneke?", "Seine Freundin Anneke ist im 4. Monat, Termin Mitte September."),
    ("What colour is the tent?", "Jo is lending us a big tent."),
    ("Welche Farbe hat mein Rad?", "Mein Rad steht noch vor dem Laden mit dem Brot."),
    ("Welche Rasse hat Rocko?", "Rocko lag heute mitten auf der Strasse."),
    ("Какой породы Шайба?", "Шайба ехала с нами в такси."),
    ("¿De qué color es Paco?", "Paco no tiene nada, solo mala leche."),
    ("邓医生的电话是多少？", "花卷换了粮，邓医生说可以。"),
    ("What breed is Pickle?", "Pickle, small and grey, goes near nobody."),
    ("Какой породы наша собака?", "Наша собака любит сало."),
    ("How tall is Theo?", "Rent goes from 1,950 to 2,310 with Theo leaving."),
    ("Сколько весит Клеопатра?", "Черепаха Клеопатра, ей 30 лет."),
    ("¿Cuánto gana Jime?", "Jime empieza el lunes 5 de mayo de vicedirectora."),
    ("¿Cómo se llama el novio de Paz?", "La novia se llama Paz y manda audios."),
    ("When is Nora's birthday?", "Can't ask Nora about her birthday without giving the party away."),
    ("¿Cuántos años tiene el abuelo Rafa?", "El médico le cambió al abuelo la pastilla: enalapril 20, la otra sigue."),
    ("乐乐的生日是哪天？", "女儿欣欣8岁，儿子乐乐4岁半，天天拆玩具。"),
    ("我姐叶岚是做什么的？", "我爸一个人照顾不过来，我姐叶岚请假回去。"),
    ("Wie heißt Nelkes Tierärztin?", "Kater Nelke frisst wieder. Die Tierärztin meint, es ist die Schilddrüse."),
    ("Wie heißt der Neffe von Frau Ahrens?", "Rad verkauft, an den Neffen von Frau Ahrens. Volker geht lieber zu Fuß."),
    ("What did I pay for the Skoda?", "Picked up a 2015 Skoda from a retired teacher."),
    ("Сколько стоит МРТ колена?", "Записали на МРТ колена 3 июня в 18:40."),
    ("What does Roma do for a living?", "Roma drove me to the doctor after the fall."),
    ("What is Wren's last name?", "I met someone, her name is Wren."),
    ("What is Mrs Holt's first name?", "I went to school with Mrs Holt's brother."),
]


@pytest.mark.parametrize(("question", "said"), TOLD)
def test_what_is_told_is_found_and_believed(question: str, said: str) -> None:
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add([said], user_id="ada")
        result = memory.recall(question, user_id="ada")
    assert result.facts and result.confidence.label != "low"


@pytest.mark.parametrize(("question", "said"), NOT_TOLD)
def test_what_tells_something_else_of_the_same_is_low(question: str, said: str) -> None:
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add([said], user_id="ada")
        result = memory.recall(question, user_id="ada")
    assert result.confidence.label == "low"


@pytest.mark.parametrize(
    ("question", "said", "user"),
    [
        ("When is Gil's eye test?", ["My eye test is on 6 March.", "Gil came by."], "ada"),
        ("When is Tess's birthday?", ["Marcus's birthday is 3 March, he's turning 45."], "ada"),
    ],
)
def test_what_others_tell_of_themselves_is_not_somebody_elses(question: str, said: list[str], user: str) -> None:
    """Proves: CONF-3, LIVE-2."""
    with Memory() as memory:
        memory.add(said, user_id=user)
        result = memory.recall(question, user_id=user)
    assert result.confidence.label == "low"


@pytest.mark.parametrize(
    ("said", "user"),
    [
        (["I'm allergic to nuts.", "I'm Ada, by the way."], "u-5"),
        (["I'm allergic to nuts.", "Somebody said that Ada is tall."], "ada"),
    ],
)
def test_the_user_may_be_asked_about_by_name(said: list[str], user: str) -> None:
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add(said, user_id=user)
        result = memory.recall("What is Ada allergic to?", user_id=user)
    assert result.confidence.label != "low" and result.facts[0].text == said[0]


@pytest.mark.parametrize(
    ("question", "language", "wanted"),
    [
        ("What did she get for her birthday?", "en", None),
        ("When is her birthday?", "en", AskedProperty.BIRTHDAY),
        ("What is her email address?", "en", AskedProperty.EMAIL),
        ("Did she email me?", "en", None),
        ("How old is the house?", "en", AskedProperty.AGE),
        ("Where did Ruth stay in Rome?", "en", None),
        ("Bei wem bin ich in Zahnbehandlung?", "de", None),
        ("Как называется книга?", "ru", AskedProperty.NAME),
        ("What did we eat?", "en", None),
    ],
)
def test_the_asked_property(question: str, language: str, wanted: AskedProperty | None) -> None:
    """Proves: CONF-3."""
    assert asked_property(question, language, asked_kind(question, language)) is wanted


@pytest.mark.parametrize(
    ("wanted", "said", "language", "told"),
    [
        (AskedProperty.AGE, "kinderen: Jan 4 en Piet 6", "nl", True),
        (AskedProperty.AGE, "physio 14 en tout", "fr", False),
        (AskedProperty.AGE, "gastamos 260 en total", "es", False),
        (AskedProperty.BREED, "van een onbekend ras", "nl", True),
        (AskedProperty.BREED, "Prune RAS, vaccin fait", "fr", False),
        (AskedProperty.JOB, "Qu'a dit l'ophtalmo pour Jules ?", "fr", True),
    ],
)
def test_a_word_of_one_language_tells_nothing_in_another(
    wanted: AskedProperty, said: str, language: str, told: bool
) -> None:
    """Dutch "en" is "and", "ras" is a breed, "dit" is "this". Proves: CONF-3."""
    assert tells(wanted, said, language) is told
